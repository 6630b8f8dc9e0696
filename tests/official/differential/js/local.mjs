// Runs programs on the SDK's own local runner: node local.mjs PROGRAMS OUTCOMES, a line of JSON each.
// A program comes with the answers to its callbacks.

import { LocalDurableTestRunner, WaitingOperationStatus } from "@aws/durable-execution-sdk-js-testing";
import { appendFileSync, readFileSync } from "node:fs";
import { handler, plain } from "./app.mjs";

async function answer(operation, { kind, text, error, submitted }) {
  await operation.waitForData(submitted ? WaitingOperationStatus.SUBMITTED : WaitingOperationStatus.STARTED);
  if (kind === "heartbeat") await operation.sendCallbackHeartbeat();
  if (kind === "heartbeat" || kind === "success") await operation.sendCallbackSuccess(text ?? undefined);
  if (kind === "failure") await operation.sendCallbackFailure(error);
}

async function run({ program, answers }) {
  const runner = new LocalDurableTestRunner({ handlerFunction: handler });
  runner.registerDurableFunction("Child:$LATEST", handler).registerFunction("Plain", plain);
  for (const [name, how] of Object.entries(answers)) {
    // One that is never asked for is no fault.
    answer(runner.getOperation(name), how).catch(() => null);
  }
  const ended = await runner.run({ payload: program });
  const status = ended.getStatus();
  return {
    status,
    result: status === "SUCCEEDED" ? ended.getResult() : undefined,
    error: status === "SUCCEEDED" ? undefined : ended.getError(),
    events: ended.getHistoryEvents(),
  };
}

const [source, target] = process.argv.slice(2);
const lines = readFileSync(source, "utf8").trim().split("\n").map((line) => JSON.parse(line));
await LocalDurableTestRunner.setupTestEnvironment({ skipTime: false });
const within = (seconds, promise) =>
  Promise.race([promise, new Promise((_, reject) => setTimeout(reject, seconds * 1000, new Error("hangs")).unref())]);
async function worker() {
  for (let line = lines.shift(); line; line = lines.shift()) {
    let outcome;
    try {
      outcome = await within(60, run(line));
    } catch (error) {
      outcome = { broken: String(error?.stack ?? error) };
    }
    appendFileSync(target, `${JSON.stringify({ seed: line.program.seed, ...outcome })}\n`);
  }
}
await Promise.all(Array.from({ length: 8 }, worker));
process.exit(0);
