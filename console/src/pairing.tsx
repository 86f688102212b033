// What a browser shows that is not paired with the gateway.

import { useState } from "preact/hooks";
import { askForPairing, link, pairByCode, stopAsking } from "./gateway.ts";

export function PairingPage() {
  const state = link.value;
  const [code, setCode] = useState("");
  if (state.is === "unsupported") {
    return (
      <Frame title="This page cannot be paired">
        <p>Browsers offer the keys that pairing needs only to pages of this machine or over HTTPS. Open the console on the gateway's machine, through an SSH tunnel, or give the gateway a TLS certificate.</p>
      </Frame>
    );
  }
  if (state.is === "waiting") {
    return (
      <Frame title="Waiting for an approval">
        <p>Approve this browser on a paired device, under Machine, or with <code>zero gateway devices approve</code>. It has to show the same text:</p>
        <p class="pair-code" aria-live="polite">{state.words}</p>
        <button onClick={stopAsking}>Cancel</button>
      </Frame>
    );
  }
  const why = state.is === "unpaired" ? state.why : "";
  const pair = (event: SubmitEvent) => {
    event.preventDefault();
    pairByCode(code.trim());
    setCode("");
  };
  return (
    <Frame title="Pair this browser">
      {why ? <p class="problem" role="alert">{why}</p> : null}
      <p>Run <code>zero console</code> on the gateway's machine and type the code that it shows.</p>
      <form onSubmit={pair}>
        <label class="field"><span>Code</span><input class="code-input" name="code" value={code} onInput={(event) => setCode(event.currentTarget.value)} placeholder="XXXX-XXXX" autocomplete="one-time-code" autocapitalize="characters" spellcheck={false} maxLength={16} required /></label>
        <div class="answers"><button class="primary">Pair</button><button type="button" class="quiet" onClick={askForPairing}>Ask a paired device instead</button></div>
      </form>
    </Frame>
  );
}

function Frame({ title, children }: { title: string; children: any }) {
  return <main class="gate"><div class="gate-card"><img src="/icon.svg" alt="" width={44} height={44} /><h1>{title}</h1>{children}</div></main>;
}
