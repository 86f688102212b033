// What a browser shows that is not paired with the gateway.

import { useState } from "preact/hooks";
import { deviceName, type Loss } from "./device.ts";
import { Words } from "./markdown.tsx";
import { askForPairing, link, pairByCode, stopAsking } from "./gateway.ts";

const LOSSES: Record<Loss, string> = {
  revoked: "The gateway does not accept the token of this browser any more: the device was revoked, or the gateway has forgotten it. Sessions and runs go on without it.",
  forgotten: "This browser has forgotten its token. Its entry in the list of devices can be revoked.",
};

export function PairingPage() {
  const state = link.value;
  const [code, setCode] = useState("");
  const [name, setName] = useState(deviceName());
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
  const [why, lost] = state.is === "unpaired" ? [state.why, state.lost] : ["", null];
  const pair = (event: SubmitEvent) => {
    event.preventDefault();
    pairByCode(code.trim(), name.trim());
    setCode("");
  };
  return (
    <Frame title={lost ? "This browser is not paired any more" : "Pair this browser"}>
      {lost ? <p class="problem" role="status">{LOSSES[lost]}</p> : null}
      {why ? <p class="problem" role="alert"><Words text={why} /></p> : null}
      <p>{lost ? "To pair it again, run" : "Run"} <code>zero console</code> on the gateway's machine and type the code that it shows.</p>
      <form onSubmit={pair}>
        <label class="field"><span>Code</span><input class="code-input" name="code" value={code} onInput={(event) => setCode(event.currentTarget.value)} placeholder="XXXX-XXXX" autocomplete="one-time-code" autocapitalize="characters" spellcheck={false} maxLength={16} required /></label>
        <label class="field"><span>Name of this browser in the list of devices</span><input name="name" value={name} onInput={(event) => setName(event.currentTarget.value)} autocomplete="off" maxLength={60} /></label>
        <div class="answers"><button class="primary">Pair</button><button type="button" class="quiet" onClick={() => askForPairing(name.trim())}>Ask a paired device instead</button></div>
      </form>
    </Frame>
  );
}

function Frame({ title, children }: { title: string; children: any }) {
  return <main class="gate"><div class="gate-card"><img src="/icon.svg" alt="" width={44} height={44} /><h1>{title}</h1>{children}</div></main>;
}
