#!/usr/bin/env node
// Starts the program of zero for this platform, which is in a package of its own.
"use strict";

const { existsSync } = require("node:fs");
const path = require("node:path");

const name = `zero-${process.platform}-${process.arch}`;

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}

function findProgram() {
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "zero");
  } catch {
    return undefined;
  }
}

const program = findProgram();
if (program === undefined || !existsSync(program)) {
  const { optionalDependencies } = require("../package.json");
  if (!(name in optionalDependencies)) {
    fail(`zero is not released for ${process.platform} on ${process.arch}; there is ${Object.keys(optionalDependencies).join(", ")}`);
  }
  fail(`the npm package \`${name}\` is missing; install zero again without --omit=optional or --no-optional`);
}

const args = process.argv.slice(2);
if (typeof process.execve === "function") {
  // Node 22.15 and later: zero takes the place of this process, with its memory, terminal and signals.
  try {
    process.emitWarning = () => {};
    process.execve(program, [program, ...args], process.env);
  } catch (error) {
    fail(`could not start ${program}: ${error.message}`);
  }
} else {
  const { spawn } = require("node:child_process");
  const child = spawn(program, args, { stdio: "inherit" });
  // The terminal sends these to both; zero decides what they mean. SIGTSTP stops both, or the shell would not notice.
  for (const signal of ["SIGINT", "SIGQUIT"]) {
    process.on(signal, () => {});
  }
  for (const signal of ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"]) {
    process.on(signal, () => child.kill(signal));
  }
  child.on("error", (error) => fail(`could not start ${program}: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (signal !== null) {
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    } else {
      process.exitCode = code;
    }
  });
}
