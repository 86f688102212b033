//! `zero ports`: lists the ports on which servers in sandboxes listen, and forwards one to this
//! machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use zero_core::sanitize;
use zero_core::text_shortening::excerpt;
use zero_exec::jobs::{Job, JobRecord, JobRegistry, JobStatus};
use zero_runtime::USER_APPROVER;
use zero_runtime::audit::forward_rows::{PortForwardAuditLog, PortForwardTarget};
use zero_runtime::audit::{AuditForward, unwritable_log_error};
use zero_sandbox::listening_ports::ListeningPort;
use zero_sandbox::network_connector::NetworkConnector;

use crate::AppContext;
use crate::cli::{PortsArgs, PortsCommand, PortsForwardArgs, PortsListArgs};
use crate::commands::sessions::{find_session_id, read_session_names};
use crate::commands::tools_call::signals;
use crate::exit::{ExitOutcome, UsageError};
use crate::host_setup::small_runtime;
use crate::terminal::{TextTable, escape_line};

/// Most connections at the same time; further ones wait.
const CONNECTIONS_MAX: usize = 64;
/// Bytes in flight per connection and direction.
const BUFFER_BYTES: usize = 16 * 1024;
/// How often the job is looked at.
const JOB_CHECK_PAUSE: Duration = Duration::from_millis(500);
/// Most characters of a command in a question.
const COMMAND_CHARS_MAX: usize = 200;
/// The answer that `--yes` gives, for the audit log.
const ANSWERED_YES_FLAG: &str = "--yes: allow once";

pub(super) fn run(app: &AppContext, args: &PortsArgs) -> anyhow::Result<ExitOutcome> {
    match &args.command {
        None => list(app, &args.list),
        Some(PortsCommand::Forward(args)) => forward(app, args),
    }
}

/// A port, and the job that listens on it.
struct JobPort {
    job: Arc<Job>,
    record: JobRecord,
    port: ListeningPort,
}

impl JobPort {
    fn to_json(&self) -> Value {
        let Self { record, port, .. } = self;
        json!({
            "port": port.port,
            "address": port.address,
            "pid": port.pid,
            "process": port.process,
            "job_id": record.id,
            "command": record.command,
            "session": record.owner.session,
            "workspace": record.owner.workspace,
        })
    }
}

/// The ports of all running jobs of the user, or of one session.
fn find_ports(app: &AppContext, session: Option<&str>) -> anyhow::Result<Vec<JobPort>> {
    let registry = JobRegistry::open(&app.config.state_dir()?);
    let mut records = registry.list().context("could not read the list of jobs")?;
    if let Some(named) = session {
        let is_id = |record: &JobRecord| record.owner.session.as_deref() == Some(named);
        let id = match records.iter().any(is_id) {
            true => named.to_owned(),
            false => find_session_id(app, named)?,
        };
        records.retain(|record| record.owner.session.as_deref() == Some(&*id));
    }
    let mut found = Vec::new();
    for record in records {
        let job = registry.open_job(record.clone());
        if job.status() != JobStatus::Running {
            continue;
        }
        let ports = job.list_ports().into_iter();
        found.extend(ports.map(|port| JobPort {
            job: Arc::clone(&job),
            record: record.clone(),
            port,
        }));
    }
    found.sort_by_key(|found| found.port.port);
    Ok(found)
}

fn list(app: &AppContext, args: &PortsListArgs) -> anyhow::Result<ExitOutcome> {
    let ports = find_ports(app, args.session.as_deref())?;
    let out = &app.terminal.out;
    if args.json {
        let ports: Vec<Value> = ports.iter().map(JobPort::to_json).collect();
        out.write_pretty_json(&json!({ "ports": ports }))?;
        return Ok(ExitOutcome::Ok);
    }
    if ports.is_empty() {
        out.write("no ports\n")?;
        return Ok(ExitOutcome::Ok);
    }
    let ids = ports.iter().filter_map(|found| found.record.owner.session.as_deref()).collect();
    // The ports are worth more than the names.
    let names = read_session_names(app, &ids).unwrap_or_default();
    let mut table =
        TextTable::new(["PORT", "ADDRESS", "PID", "PROCESS", "JOB", "SESSION", "COMMAND"]);
    for JobPort { record, port, .. } in &ports {
        table.add_row([
            port.port.to_string().into(),
            port.address.to_string().into(),
            port.pid.to_string().into(),
            (&port.process).into(),
            (&record.id).into(),
            record
                .owner
                .session
                .as_deref()
                .map_or("-", |id| names.get(id).map_or(id, String::as_str))
                .into(),
            (&record.command).into(),
        ]);
    }
    out.write(&table.render(out))?;
    Ok(ExitOutcome::Ok)
}

fn forward(app: &AppContext, args: &PortsForwardArgs) -> anyhow::Result<ExitOutcome> {
    let JobPort { job, record, port } = choose_port(app, args)?;
    let requested_port = args.to.unwrap_or(args.port);
    // Before the question: an answer that cannot be used is not asked for.
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, requested_port))
        .map_err(|error| bind_error(requested_port, &error))?;
    let host_port = listener.local_addr().context("could not open a port")?.port();
    let target = PortForwardTarget {
        job_id: record.id.clone(),
        session: record.owner.session.clone(),
        workspace: record.owner.workspace.clone(),
        port: args.port,
        host_port,
    };
    let state = app.config.state_dir()?;
    let log = PortForwardAuditLog::new(&state, app.config.open_workspace(&[])?, target);
    let Some(answered) = ask(app, args, &record, &port, host_port)? else {
        log.write_refusal(&format!("{USER_APPROVER}: reject"))
            .map_err(|error| unwritable_log_error(&error))?;
        return Ok(ExitOutcome::Denied);
    };
    log.write_begin(&answered).map_err(|error| unwritable_log_error(&error))?;
    let connector = NetworkConnector::open(&port).with_context(|| {
        format!("could not join the network of `{}`; it may have ended just now", record.id)
    })?;
    let command = excerpt(&record.command, COMMAND_CHARS_MAX);
    let command = escape_line(&command);
    let forwarding = format!(
        "forwarding http://127.0.0.1:{host_port} to port {} of {} ({command}); press Ctrl-C to stop\n",
        args.port, record.id
    );
    app.terminal.out.write_prose(&forwarding, 0)?;
    let (began, traffic) = (Instant::now(), Arc::<ForwardTraffic>::default());
    let forwarded = serve(app, listener, connector, &job, &traffic);
    log.write_end(&answered, traffic.to_audit(), began.elapsed())
        .map_err(|error| unwritable_log_error(&error))?;
    forwarded
}

/// The job that listens on the wanted port.
fn choose_port(app: &AppContext, args: &PortsForwardArgs) -> anyhow::Result<JobPort> {
    let mut ports = find_ports(app, args.session.as_deref())?;
    let is_wanted = |found: &JobPort| {
        found.port.port == args.port && args.job.as_ref().is_none_or(|id| *id == found.record.id)
    };
    ports.retain(is_wanted);
    // A server may listen on several addresses.
    ports.dedup_by(|other, first| other.record.id == first.record.id);
    let port = args.port;
    match ports.len() {
        1 => Ok(ports.remove(0)),
        0 => Err(UsageError(format!(
            "no job listens on port {port}; run `zero ports` to see the ports of all jobs"
        ))
        .into()),
        _ => {
            let ids: Vec<&str> = ports.iter().map(|found| found.record.id.as_str()).collect();
            let list = ids.join(", ");
            let what = format!("{list} all listen on port {port}; choose one with --job");
            Err(UsageError(what).into())
        }
    }
}

/// Asks whether to forward. Returns who allowed it; `None` if the user said no.
fn ask(
    app: &AppContext,
    args: &PortsForwardArgs,
    record: &JobRecord,
    port: &ListeningPort,
    host_port: u16,
) -> anyhow::Result<Option<String>> {
    if args.yes {
        return Ok(Some(ANSWERED_YES_FLAG.to_owned()));
    }
    let Some(answers) = app.terminal.answer_source() else {
        let what = "cannot ask without a terminal; pass --yes to forward the port";
        return Err(UsageError(what.to_owned()).into());
    };
    let process = sanitize::to_quoted_line(&port.process);
    app.terminal.err.write(&format!(
        "{process} in the sandbox of {} listens on port {}\n  run     {}\n  in      {}\n  \
         While it is forwarded, every program on this machine can connect to it at\n  127.0.0.1:{host_port}. \
         What it serves is made by the sandbox: your browser\n  runs its pages.\n",
        record.id,
        port.port,
        escape_line(&excerpt(&record.command, COMMAND_CHARS_MAX)),
        escape_line(&record.owner.workspace),
    ))?;
    let is_yes = app.terminal.confirm(&answers, "Forward it?");
    Ok(is_yes.then(|| format!("{USER_APPROVER}: allow once")))
}

fn bind_error(port: u16, error: &std::io::Error) -> anyhow::Error {
    let what = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("port {port} of 127.0.0.1 is already in use; choose another with --to")
        }
        std::io::ErrorKind::PermissionDenied => {
            format!("only root can open port {port}; choose one from 1024 on with --to")
        }
        _ => format!("could not open port {port} of 127.0.0.1 ({error}); choose another with --to"),
    };
    UsageError(what).into()
}

/// What passed so far.
#[derive(Debug, Default)]
struct ForwardTraffic {
    connections: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl ForwardTraffic {
    fn to_audit(&self) -> AuditForward {
        AuditForward {
            connections: self.connections.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
        }
    }
}

/// Forwards connections until the user interrupts it or the job ends.
fn serve(
    app: &AppContext,
    listener: std::net::TcpListener,
    connector: NetworkConnector,
    job: &Arc<Job>,
    traffic: &Arc<ForwardTraffic>,
) -> anyhow::Result<ExitOutcome> {
    let runtime = small_runtime()?;
    let cancel = CancellationToken::new();
    let served = runtime.block_on(async {
        signals::cancel_on_interrupt(&cancel);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let accepting = accept_all(listener, Arc::new(connector), Arc::clone(traffic));
        tokio::select! {
            () = cancel.cancelled() => {}
            () = wait_for_end(job) => {
                app.terminal.print_note(&format!("{} has ended", job.id()));
            }
            failed = accepting => return failed,
        }
        Ok(ExitOutcome::Ok)
    });
    runtime.shutdown_background();
    served.context("could not forward the port")
}

/// Completes when the job has ended.
async fn wait_for_end(job: &Arc<Job>) {
    loop {
        let waited = Arc::clone(job);
        let wait = tokio::task::spawn_blocking(move || waited.wait(JOB_CHECK_PAUSE));
        // Fails only when the program ends.
        if wait.await.unwrap_or(true) {
            return;
        }
    }
}

/// Accepts connections; returns only if that fails.
async fn accept_all(
    listener: TcpListener,
    connector: Arc<NetworkConnector>,
    traffic: Arc<ForwardTraffic>,
) -> std::io::Result<ExitOutcome> {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return Ok(ExitOutcome::Ok);
        };
        let (mut client, from): (TcpStream, SocketAddr) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        let (connector, traffic) = (Arc::clone(&connector), Arc::clone(&traffic));
        tokio::spawn(async move {
            let _slot = slot;
            let connecting = tokio::task::spawn_blocking(move || {
                let stream = connector.connect()?;
                stream.set_nonblocking(true)?;
                std::io::Result::Ok(stream)
            });
            let connected = connecting.await.map_err(std::io::Error::other).flatten();
            let mut server = match connected.and_then(TcpStream::from_std) {
                Ok(server) => server,
                Err(error) => {
                    tracing::debug!(%error, %from, "a connection could not be forwarded");
                    return;
                }
            };
            traffic.connections.fetch_add(1, Ordering::Relaxed);
            let (mut client_read, mut client_write) = client.split();
            let (mut server_read, mut server_write) = server.split();
            let copied = tokio::try_join!(
                copy(&mut client_read, &mut server_write, &traffic.sent_bytes),
                copy(&mut server_read, &mut client_write, &traffic.received_bytes),
            );
            if let Err(error) = copied {
                tracing::debug!(%error, %from, "a forwarded connection failed");
            }
        });
    }
}

/// Copies one direction until its end, and counts the bytes as they pass.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    count: &AtomicU64,
) -> std::io::Result<()> {
    let mut bytes = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut bytes).await?;
        let Some(read) = bytes.get(..read).filter(|read| !read.is_empty()) else {
            return to.shutdown().await;
        };
        to.write_all(read).await?;
        count.fetch_add(read.len() as u64, Ordering::Relaxed);
    }
}
