#!/usr/bin/env node
// Starts the binary that npm installed for this platform.
"use strict";
const { spawn } = require("node:child_process");
const name = `@modelgate/${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/bin/modelgate${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`modelgate: the package ${name} is not installed; install modelgate without --omit=optional, ` +
    "and on a platform that it is built for (Linux, macOS or Windows on x64 or arm64)");
  process.exit(1);
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (err) => { console.error(`modelgate: ${binary} cannot be started: ${err.message}`); process.exit(1); });
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.removeAllListeners(name);
  process.kill(process.pid, signal);
});
