//! `zero sessions grants`: what the user allowed or rejected for the rest of a session.

use serde_json::json;
use zero_wire::zero_sessions::{
    GrantInfo, GrantsRevokeParams, SessionKeyParams, ZeroGrantsList, ZeroGrantsRevoke,
};

use super::{find_session, format_time};
use crate::AppContext;
use crate::cli::sessions::SessionsGrantsArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::terminal::{BAD, FAINT, GOOD, TableCell, TextTable, escape_line};

pub(super) async fn run(
    app: &AppContext,
    args: &SessionsGrantsArgs,
    gateway: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let session = find_session(gateway, &args.session).await?;
    if args.revoke_all || !args.revoke.is_empty() {
        let count = revoke(args, gateway, &session.session_key).await?;
        let what = if count == 1 { "grant" } else { "grants" };
        app.terminal.out.write(&format!("revoked {count} {what}\n"))?;
        return Ok(ExitOutcome::Ok);
    }
    let params = SessionKeyParams { session_key: session.session_key };
    let grants = gateway.client.request::<ZeroGrantsList>(params).await?.grants;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&json!({ "grants": grants }))?;
        return Ok(ExitOutcome::Ok);
    }
    if grants.is_empty() {
        app.terminal.print_note("this session has no grants");
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["ANSWER", "RULE", "FOLDER", "WHEN"]);
    for GrantInfo { allowed, rule, folder, time_ms, .. } in grants {
        let (word, style) = if allowed { ("allow", GOOD) } else { ("reject", BAD) };
        table.add_row([
            TableCell::styled(word, style),
            rule.into(),
            folder.unwrap_or_default().into(),
            TableCell::styled(format_time(time_ms), FAINT),
        ]);
    }
    out.write(&table.render(out))?;
    Ok(ExitOutcome::Ok)
}

/// Revokes grants and returns how many there were. An unknown rule revokes nothing.
async fn revoke(
    args: &SessionsGrantsArgs,
    gateway: &CliGatewayConnection,
    session_key: &str,
) -> anyhow::Result<u64> {
    let listed = SessionKeyParams { session_key: session_key.to_owned() };
    let listed = gateway.client.request::<ZeroGrantsList>(listed).await?.grants;
    let unknown = args.revoke.iter().find(|rule| !listed.iter().any(|one| one.rule == **rule));
    if let Some(rule) = unknown {
        let what = format!(
            "this session has no grant `{}`; `zero sessions grants` lists them; nothing was revoked",
            escape_line(rule)
        );
        return Err(UsageError(what).into());
    }
    let rules = args.revoke.iter().cloned().map(Some).chain(args.revoke_all.then_some(None));
    let mut revoked = 0;
    for rule in rules {
        let params = GrantsRevokeParams { session_key: session_key.to_owned(), rule };
        revoked += gateway.client.request::<ZeroGrantsRevoke>(params).await?.revoked;
    }
    Ok(revoked)
}
