// The SDK's own test runner for the cloud, unmodified, against a server that only the environment
// names: node cloud.mjs

import { CloudDurableTestRunner, InvocationType, WaitingOperationStatus } from "@aws/durable-execution-sdk-js-testing";
import assert from "node:assert/strict";

const step = (name, value, more) => ({
  op: "step",
  name,
  value,
  fails: 0,
  attempts: 1,
  error: { name: "OddError", message: "told to fail", data: '{"code":7}' },
  ...more,
});
const program = (...body) => ({ body, pad: 0, fail: null });
const asynchronous = { pollInterval: 100, invocationType: InvocationType.Event };
const runnerOf = (config = { pollInterval: 100 }) =>
  new CloudDurableTestRunner({ functionName: "Main:$LATEST", config });

async function everything() {
  const runner = runnerOf();
  const map = { op: "map", name: "m", items: 3, body: [step("x", { value: 1 })], failing: -1, pad: 0 };
  const ended = await runner.run({
    payload: program(
      step("flaky", { value: "ümlaut 🎈" }, { fails: 1, attempts: 2 }),
      { op: "wait", name: "w", seconds: 1 },
      { op: "child", name: "k", body: [step("inside", { value: null })], pad: 300 * 1024 },
      map,
      { op: "condition", name: "p", polls: 2, failsAt: 0, state: "s" },
      { op: "invoke", name: "i", target: "Plain", input: { value: { value: 5 } } },
      { op: "invoke", name: "j", target: "Child", input: program(step("theirs", { value: 6 })) },
    ),
  });
  assert.equal(ended.getStatus(), "SUCCEEDED");
  const [flaky, , , , , plain, child] = ended.getResult();
  assert.deepEqual([flaky, plain, child], ["ümlaut 🎈", 5, [6]]);
  // This runner tells the last attempt that failed.
  assert.equal(runner.getOperation("flaky").getStepDetails().attempt, 1);
  assert.equal(runner.getOperation("w").getWaitDetails().waitSeconds, 1);
  assert.equal(runner.getOperation("k").getChildOperations().length, 1);
  assert.equal(runner.getOperation("m").getChildOperations().length, 3);
  assert.deepEqual(runner.getOperation("p").getStepDetails().result, { polls: 2, state: "s" });
  assert.equal(runner.getOperation("i").getStatus(), "SUCCEEDED");
  assert.ok(ended.getInvocations().length >= 3);
}

async function failure() {
  const ended = await runnerOf().run({
    payload: { ...program(step("s", { value: 1 })), fail: { name: "OddError", message: "ümlaut" } },
  });
  assert.equal(ended.getStatus(), "FAILED");
  assert.equal(ended.getError().errorMessage, "ümlaut");
  assert.equal(ended.getError().errorType, "OddError");
}

async function callbacks() {
  const limits = { timeout: 60, heartbeat: 60 };
  const runner = runnerOf(asynchronous);
  const asked = runner.getOperation("c");
  const submitted = runner.getOperation("d");
  const ending = runner.run({
    payload: program(
      { op: "callback", name: "c", ...limits },
      { op: "waitCallback", name: "d", fails: 0, attempts: 1, ...limits, catch: true },
      { op: "callback", name: "late", timeout: 1, heartbeat: 0, catch: true },
    ),
  });
  await asked.waitForData(WaitingOperationStatus.STARTED);
  await asked.sendCallbackHeartbeat();
  await asked.sendCallbackSuccess("yes");
  await submitted.waitForData(WaitingOperationStatus.SUBMITTED);
  await submitted.sendCallbackFailure({ ErrorMessage: "no", ErrorType: "Refused" });
  const ended = await ending;
  const [yes, no, late] = ended.getResult();
  assert.equal(yes, "yes");
  assert.deepEqual([no.caught, no.message], ["CallbackExternalError", "no"]);
  assert.deepEqual([late.caught, late.message], ["CallbackTimeoutError", "Callback timed out"]);
  assert.equal(runner.getOperation("late").getStatus(), "TIMED_OUT");
}

// More than an answer may carry: the SDK writes it with a checkpoint, which ends the execution.
async function large() {
  const size = 6 * 1024 * 1024 - 60;
  const ended = await runnerOf().run({ payload: { ...program(step("s", { value: 1 })), pad: size } });
  assert.equal(ended.getStatus(), "SUCCEEDED");
  assert.equal(ended.getResult().pad.length, size);
  assert.equal(ended.getHistoryEvents().at(-1).EventType, "ExecutionSucceeded");
  assert.equal(ended.getInvocations().length, 1);
}

// More events than a page of the history holds.
async function long() {
  const items = { items: 300, failing: -1, pad: 0, concurrency: 50 };
  const map = { op: "map", name: "m", body: [step("x", { value: 1 })], ...items };
  const runner = runnerOf(asynchronous);
  const ended = await runner.run({ payload: program(map) });
  assert.equal(ended.getStatus(), "SUCCEEDED");
  assert.equal(runner.getOperation("m").getChildOperations().length, 300);
  assert.ok(ended.getHistoryEvents().length > 1000);
}

for (const part of [everything, failure, callbacks, large, long]) {
  const begun = performance.now();
  const late = new Promise((_, reject) => setTimeout(reject, 60_000, new Error(`${part.name} does not end`)).unref());
  await Promise.race([part(), late]);
  console.log(`    cloud js ${part.name}: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
}
