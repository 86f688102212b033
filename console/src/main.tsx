// The web console of zero gateway.

import "uplot/dist/uPlot.min.css";
import "./app.css";
import { render, type VNode } from "preact";
import { useEffect } from "preact/hooks";
import { AuditCallPage, AuditPage } from "./audit.tsx";
import { epoch, link, start } from "./gateway.ts";
import { InboxPage, pendingCount, watchInbox } from "./inbox.tsx";
import { MachinePage } from "./machine.tsx";
import { PairingPage } from "./pairing.tsx";
import { PolicyPage } from "./policy.tsx";
import { ReplayPage } from "./replay.tsx";
import { decodePart, go, route } from "./route.ts";
import { SessionPage, deliverUnsent } from "./session.tsx";
import { SessionsPage } from "./sessions.tsx";
import { UsagePage } from "./usage.tsx";
import { Words } from "./markdown.tsx";
import { Guard, toast } from "./ui.tsx";

const PAGES: [string, string, string][] = [
  ["inbox", "Inbox", "M4 13h4l1.5 3h5L16 13h4M4 13l3-8h10l3 8v6H4z"],
  ["sessions", "Sessions", "M5 5h14v10H10l-5 4z"],
  ["audit", "Audit", "M6 4h12v16H6zM9 9h6M9 13h6M9 17h3"],
  ["policy", "Policy", "M12 3l7 3v6c0 4-3 7-7 9-4-2-7-5-7-9V6z"],
  ["usage", "Usage", "M5 20V10M12 20V4M19 20v-7"],
  ["machine", "Machine", "M4 5h16v11H4zM9 20h6M12 16v4"],
];

function App() {
  const state = link.value;
  if (state.is === "unsupported" || state.is === "unpaired" || state.is === "waiting") return <PairingPage />;
  const path = route.value;
  const [area = "inbox"] = path.split(/[/?]/);
  const active = area === "session" || area === "replay" ? "sessions" : area;
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), document.getElementById("content")?.focus())}>Skip to the content</a>
      <nav aria-label="Pages">
        <a class="brand" href="#/inbox" aria-hidden="true" tabIndex={-1}><img src="/icon.svg" alt="" width={26} height={26} /><span>zero</span></a>
        <ul>{PAGES.map(([name, label, icon]) => (
          <li><a href={`#/${name}`} aria-current={name === active ? "page" : undefined}>
            <svg viewBox="0 0 24 24" aria-hidden="true"><path d={icon} /></svg><span>{label}</span>
            {name === "inbox" && pendingCount() ? <span class="badge">{pendingCount()}<span class="hidden"> waiting</span></span> : null}
          </a></li>
        ))}</ul>
      </nav>
      <main id="content" tabIndex={-1}>
        {state.is === "offline" ? <p class="offline" role="alert">{state.why} Connecting again…</p> : null}
        {epoch.value === 0 && state.is !== "online" ? null : <Guard key={path.split("?")[0]}><Content path={path} /></Guard>}
      </main>
      <div class="toasts" role="status" aria-live="polite">{toast.value ? <p class={toast.value.bad ? "bad" : ""}><Words text={toast.value.text} /></p> : null}</div>
    </>
  );
}

function Content({ path }: { path: string }): VNode {
  const [whole = "", query = ""] = path.split("?", 2);
  const [area, part] = whole.split("/", 2);
  useEffect(() => window.scrollTo(0, 0), [whole]);
  const name = decodePart(part);
  switch (area) {
    case "sessions": return <SessionsPage />;
    case "session": return <SessionPage key={name} sessionKey={name} />;
    case "replay": return <ReplayPage key={name} sessionKey={name} />;
    case "audit": return name ? <AuditCallPage key={name} call={name} /> : <AuditPage query={query} />;
    case "policy": return <PolicyPage />;
    case "usage": return <UsagePage />;
    case "machine": return <MachinePage />;
    default: return <InboxPage id={name || null} />;
  }
}

function registerWorker(): void {
  const types = (window as any).trustedTypes;
  const address = "/worker.js";
  const trusted = types ? types.createPolicy("zero-worker", { createScriptURL: () => address }).createScriptURL("") : address;
  navigator.serviceWorker?.register(trusted).catch(() => {});
  navigator.serviceWorker?.addEventListener("message", (event) => {
    if (typeof event.data?.show === "string") go(`inbox/${encodeURIComponent(event.data.show)}`);
  });
}

epoch.subscribe(() => deliverUnsent());
watchInbox();
render(<App />, document.getElementById("app")!);
void start();
registerWorker();
