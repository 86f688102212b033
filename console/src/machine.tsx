// The machine of the gateway: what the doctor finds, paired devices, and the gateways it shares a database with.

import { useState } from "preact/hooks";
import { Words } from "./markdown.tsx";
import { QrCode } from "./qr_code.tsx";
import { deviceId, forget, hasScope, request, scopes, serverVersion } from "./gateway.ts";
import { formatClock, formatCounted } from "./format.ts";
import type { DeviceInviteResult, DoctorCheckInfo, NodeInfo, PairedDeviceInfo, PairingRequestInfo, TokenInfo } from "./wire.ts";
import { Ago, Empty, Page, Sure, Tag, Waiting, attempt, useAnswer } from "./ui.tsx";

const SCOPES = ["read", "write", "approvals", "questions", "admin"] as const;
/** As much of an id as `zero gateway devices` needs and shows. */
const shortId = (id: string) => id.slice(0, 8);
const plain = (name: string) => name.replace("operator.", "");

export function MachinePage() {
  const isAdmin = hasScope("admin");
  return (
    <Page title="Machine" wide>
      <section aria-labelledby="this-title">
        <h2 id="this-title">This browser</h2>
        <p>In lists of devices it is <code>{shortId(deviceId())}</code>.</p>
        <p>It may: {scopes.value.map(plain).join(", ") || "nothing"}. The gateway is zero {serverVersion.value}.</p>
        <div class="answers"><Sure label="Forget its token" sure="Really forget?" act={() => void forget()} /></div>
      </section>
      {isAdmin ? <><Nodes /><Devices /><Doctor /></> : <Empty title="Devices and checks need the admin scope" />}
    </Page>
  );
}

function Nodes() {
  const found = useAnswer("zero.nodes.list", {}, 3_000);
  return (
    <Waiting of={found}>{(known) => known.node ? (
      <section aria-labelledby="nodes-title">
        <h2 id="nodes-title">Gateways</h2>
        <ul class="rows">{known.nodes.map((one) => <li key={one.name}><NodeRow one={one} isThis={one.name === known.node} changed={found.reload} /></li>)}</ul>
        {known.abandonedSessions ? <p>{formatCounted(known.abandonedSessions, "session")} {known.abandonedSessions === 1 ? "waits" : "wait"} for a gateway to continue.</p> : null}
      </section>
    ) : null}</Waiting>
  );
}

function NodeRow({ one, isThis, changed }: { one: NodeInfo; isThis: boolean; changed: () => void }) {
  const { status } = one;
  const problem = status ? status.problem : one.problem;
  const drain = () => void attempt(() => request("zero.nodes.drain", { node: one.name }), "It hands its sessions over").then(changed);
  const facts = [`${formatCounted(one.sessions, "session")} at work`, `lease ${(one.leaseLeftMs / 1_000).toFixed(1)} s`];
  if (status) facts.push(formatCounted(status.connections, "client"), `zero ${status.version}`);
  if (one.answerMs != null) facts.push(`answers in ${one.answerMs.toFixed(1)} ms`);
  return (
    <div class="row static">
      <span class={`dot ${status && !problem ? "live" : ""}`} role="img" aria-label={status && !problem ? "works" : "has a problem"} />
      <span class="row-main"><span class="row-name path">{one.name}{isThis ? " (this gateway)" : ""}</span><span class="muted small">{facts.join(" · ")}</span>{problem ? <span class="small">{problem}</span> : null}</span>
      <span class="row-side answers">{status?.draining ? "hands its sessions over" : <Sure label="Drain" sure="Really end it?" act={drain} />}</span>
    </div>
  );
}

function Devices() {
  const found = useAnswer("zero.devices.list", {}, 3_000);
  const [granted, setGranted] = useState<Set<string>>(new Set(["read", "approvals", "questions"]));
  const [code, setCode] = useState<DeviceInviteResult | null>(null);
  const names = [...granted].map((name) => `operator.${name}`);
  const page = code?.url?.replace(/\/$/, "") ?? location.origin;
  const invite = () => void attempt(async () => setCode(await request("zero.devices.invite", { scopes: names, page: `${location.origin}/` })));
  return (
    <section aria-labelledby="devices-title">
      <h2 id="devices-title">Devices</h2>
      <Scopes legend="A new device may" granted={granted} change={setGranted} />
      <div class="answers"><button disabled={!granted.size} onClick={invite}>Show a code</button></div>
      {code ? (
        <div class="card code-card" aria-live="polite">
          <div class="code-parts">
            <QrCode rows={code.qrRows ?? []} label={`QR code of ${page}`} />
            <div><p>Open <span class="path">{page}</span> on the device, by its camera or by typing, and type</p><p class="pair-code">{code.code}</p><p class="muted">The code works once, until {formatClock(code.expiresAtMs)}. It is not in the picture.</p></div>
          </div>
          {isLoopback(new URL(page).hostname) ? <p class="notice">Other devices cannot reach this address. To pair a phone, set <code>gateway.publicUrl</code> to the address by which it reaches this machine.</p> : null}
        </div>
      ) : null}
      <Waiting of={found}>{(known) => (
        <>
          {known.requests.length ? <><h3>Ask to be paired</h3><ul class="cards">{known.requests.map((one) => <li key={one.id}><Request one={one} names={names} changed={found.reload} /></li>)}</ul></> : null}
          {known.devices.length ? <ul class="rows">{known.devices.map((one) => <li key={one.id}><DeviceRow one={one} changed={found.reload} /></li>)}</ul> : <p class="muted">No device is paired.</p>}
          {known.tokens?.length ? <Tokens tokens={known.tokens} /> : null}
        </>
      )}</Waiting>
    </section>
  );
}

const isLoopback = (host: string) => /^(localhost|127\.[\d.]+|\[::1\])$/.test(host);

function Scopes({ legend, granted, change }: { legend: string; granted: Set<string>; change: (granted: Set<string>) => void }) {
  const toggle = (name: string) => {
    const next = new Set(granted);
    if (!next.delete(name)) next.add(name);
    change(next);
  };
  return <fieldset class="scopes"><legend>{legend}</legend>{SCOPES.map((name) => <label class="check"><input type="checkbox" checked={granted.has(name)} onChange={() => toggle(name)} /> {name}</label>)}</fieldset>;
}

function Tokens({ tokens }: { tokens: TokenInfo[] }) {
  return (
    <>
      <h3>Tokens</h3>
      <ul class="rows">{tokens.map((one) => (
        <li key={`${one.kind} ${one.name}`}><div class="row static">
          <span class="row-main"><span class="row-name">{one.name} {one.kind === "none" ? <Tag word="warning" /> : <Tag word={one.kind} />}</span>
            <span class="muted small">{one.kind === "none" ? "Every program of this machine may connect. " : ""}{one.scopes.map(plain).join(", ")}{one.owner !== one.name ? ` · sessions of ${one.owner}` : ""}</span></span>
        </div></li>
      ))}</ul>
      <p class="muted small">Tokens are in <code>gateway.tokens</code> of the settings, or in a file that the gateway was started with. To revoke one, remove it and restart the gateway.</p>
    </>
  );
}

function Request({ one, names, changed }: { one: PairingRequestInfo; names: string[]; changed: () => void }) {
  const approve = () => void attempt(() => request("zero.devices.approve", { id: one.id, scopes: names }), "Paired").then(changed);
  const reject = () => void attempt(() => request("zero.devices.reject", { id: one.id })).then(changed);
  return (
    <div class="card"><p class="card-title">{one.name}</p>
      <p>It has to show <strong class="path">{one.words}</strong>. It asks from {one.address}, <Ago ms={one.askedAtMs} />.</p>
      <div class="answers"><button class="primary" disabled={!names.length} onClick={approve}>Pair: {names.map(plain).join(", ")}</button><button class="deny" onClick={reject}>Reject</button></div></div>
  );
}

function DeviceRow({ one, changed }: { one: PairedDeviceInfo; changed: () => void }) {
  const [edited, setEdited] = useState<Set<string> | null>(null);
  const revoke = () => void attempt(() => request("zero.devices.revoke", { id: one.id }), "Revoked").then(changed);
  const save = (names: Set<string>) => void attempt(async () => {
    await request("zero.devices.scope", { id: one.id, scopes: [...names].map((name) => `operator.${name}`) });
    setEdited(null);
  }, "Changed").then(changed);
  return (
    <div class="row static">
      <span class={`dot ${one.connections ? "live" : ""}`} role="img" aria-label={one.connections ? "connected" : "not connected"} />
      <span class="row-main">
        <span class="row-name">{one.name} <code>{shortId(one.id)}</code> {one.isThis ? <Tag word="this browser" /> : null}</span>
        <span class="muted small">{one.scopes.map(plain).join(", ")}</span>
        <span class="muted small">paired <Ago ms={one.pairedAtMs} /> · {one.connections ? "connected now" : one.seenAtMs ? <>last seen <Ago ms={one.seenAtMs} /></> : "never seen"}</span>
      </span>
      <span class="row-side answers">{edited ? null : <button onClick={() => setEdited(new Set(one.scopes.map(plain)))}>Change</button>}<Sure label="Revoke" sure="Really revoke?" act={revoke} /></span>
      {edited ? <div class="row-edit"><Scopes legend={`${one.name} may`} granted={edited} change={setEdited} /><div class="answers"><button class="primary" disabled={!edited.size} onClick={() => save(edited)}>Save</button><button onClick={() => setEdited(null)}>Cancel</button></div></div> : null}
    </div>
  );
}

/** The checks of the doctor by what they are about; the rest comes last. */
const AREAS: [string, string[] | null][] = [
  ["Sandbox", ["sandbox", "build", "commands"]], ["MCP servers", ["mcp", "tools"]], ["Language servers", ["lsp"]], ["Everything else", null],
];

function Doctor() {
  const found = useAnswer("zero.machine.doctor", {});
  return (
    <section aria-labelledby="doctor-title">
      <h2 id="doctor-title">Checks</h2>
      <Waiting of={found}>{(report) => {
        const order = ["error", "warning", "ok"];
        const checks = [...report.checks].sort((one, other) => order.indexOf(one.status) - order.indexOf(other.status));
        return (
          <>
            <p>{report.ok ? "No errors." : "Something needs attention."} <button class="quiet" onClick={found.reload}>Check again</button></p>
            {AREAS.map(([title, names]) => {
              const own = checks.filter((check) => names ? names.includes(check.check) : !AREAS.some(([, known]) => known?.includes(check.check)));
              return own.length ? <div key={title}><h3>{title}</h3><ul class="checks">{own.map((check) => <Check check={check} />)}</ul></div> : null;
            })}
          </>
        );
      }}</Waiting>
    </section>
  );
}

const Check = ({ check }: { check: DoctorCheckInfo }) => (
  <li><Tag word={check.status} /><span><strong>{check.check}</strong> <Words text={check.message} />{check.fix ? <span class="muted fix"><Words text={check.fix} /></span> : null}</span></li>
);
