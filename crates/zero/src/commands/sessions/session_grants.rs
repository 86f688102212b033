//! `zero sessions grants`: what the user allowed or rejected for the rest of a session.

use serde_json::json;
use zero_core::SessionId;
use zero_wire::zero_sessions::{GrantInfo, SessionInfo, SessionKeyParams, ZeroGrantsList};

use super::{find_session, format_time};
use crate::AppContext;
use crate::cli::sessions::SessionsGrantsArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::terminal::{BAD, FAINT, GOOD, TableCell, TextTable};

pub(super) async fn run(
    app: &AppContext,
    args: &SessionsGrantsArgs,
    gateway: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let session = find_session(gateway, &args.session).await?;
    if args.revoke_all || !args.revoke.is_empty() {
        let count = revoke(args, gateway, session).await?;
        let what = if count == 1 { "grant" } else { "grants" };
        app.terminal.out.write(&format!("revoked {count} {what}\n"))?;
        return Ok(ExitOutcome::Ok);
    }
    let wanted = SessionKeyParams { session_key: session.session_key };
    let grants = gateway.client.request::<ZeroGrantsList>(wanted).await?.grants;
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

/// Revokes grants and returns how many there were.
async fn revoke(
    args: &SessionsGrantsArgs,
    gateway: &CliGatewayConnection,
    session: SessionInfo,
) -> anyhow::Result<usize> {
    let Some(store) = gateway.local_store() else {
        let what = "grants can be revoked only on the machine that stores the session; `zero sessions reset` ends all of them";
        return Err(UsageError(what.to_owned()).into());
    };
    let session = SessionId::new(session.session_id)?;
    let before = store.grants(&session).await?;
    let unknown =
        args.revoke.iter().find(|rule| !before.iter().any(|one| one.grant.rule == **rule));
    if let Some(rule) = unknown {
        let what = format!(
            "this session has no grant `{rule}`; `zero sessions grants` lists them; nothing was revoked"
        );
        return Err(UsageError(what).into());
    }
    let is_kept = |rule: &String| !args.revoke_all && !args.revoke.contains(rule);
    let after: Vec<_> = before.iter().filter(|one| is_kept(&one.grant.rule)).cloned().collect();
    let count = before.len() - after.len();
    store.change_grants(&session, before, after).await?;
    Ok(count)
}
