// Suite 10: plugins. What this SDK cannot do of it is in docs/compatibility.md.

import { withDurableExecution } from "@aws/durable-execution-sdk-js";
import { failingUntil, giving, never, refuse, retrying } from "./common.mjs";

const ended = ["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "STOPPED"];
const moment = (time) => (time ? new Date(time).toISOString() : undefined);
const size = (map) => Object.keys(map).length;

// Writes a record of each hook it sees, short or with everything the hook was told.
class Recorder {
  constructor({ name = "CONFPLUGIN", only, whole = false, fails = false } = {}) {
    Object.assign(this, { name, only, whole, fails });
  }

  async write(hook, fields) {
    const record = { plugin: this.name, hook, durableExecutionArn: this.arn, ...fields };
    process.stdout.write(`${JSON.stringify(record)}\n`);
    if (this.fails) await refuse();
  }

  wants({ type }) {
    return this.only === undefined || this.only === type;
  }

  // What is absent is left out when everything is told.
  operation(info) {
    const { id, name, type, subType, parentId, status, attempt, isReplay } = info;
    if (!this.whole) return { op: id, type, name, parent: parentId ?? "NONE", status };
    const [startTimestamp, endTimestamp] = [moment(info.startTimestamp), moment(info.endTimestamp)];
    const error = info.error?.message;
    return { id, name, type, subType, parentId, status, startTimestamp, endTimestamp, error, attempt, isReplay };
  }

  async onInvocationStart(info) {
    this.arn = info.executionArn;
    this.isFirst = info.isFirstInvocation;
    for (const operation of Object.values(info.updatedOperations)) {
      if (this.only === operation.type) {
        await this.write("updated-on-invoke", { first: this.isFirst, ...this.operation(operation) });
      }
    }
    await this.write("invocation-start", { first: this.isFirst });
  }

  async onInvocationEnd({ status }) {
    await this.write("invocation-end", { first: this.isFirst, status, terminal: ended.includes(status) });
  }

  async onOperationStart(info) {
    if (!this.wants(info)) return;
    const pending = !ended.includes(info.status);
    await this.write("operation-start", { ...this.operation(info), replay: info.isReplay, pending });
  }

  async onOperationEnd(info) {
    if (!this.wants(info)) return;
    const short = { result: info.result ?? "NONE", error: info.error?.message ?? "NONE" };
    await this.write("operation-end", { ...this.operation(info), ...(this.whole ? {} : short) });
  }

  async onOperationChange(info) {
    for (const operation of Object.values(info.updatedOperations)) {
      if (!this.wants(operation)) continue;
      const isKnown = operation.id in info.operations;
      await this.write("operation-change", {
        ...this.operation(operation),
        in_full_map: isKnown,
        inFullMap: isKnown,
        executionArn: info.executionArn,
        updatedOperationsCount: size(info.updatedOperations),
        operationsCount: size(info.operations),
      });
    }
  }

  async onOperationAttemptStart(info) {
    if (this.wants(info)) await this.write("attempt-start", { ...this.operation(info), n: info.attempt });
  }

  async onOperationAttemptEnd(info) {
    if (!this.wants(info)) return;
    await this.write("attempt-end", { ...this.operation(info), n: info.attempt, outcome: info.outcome });
  }
}

// The same, for the bodies of contexts too.
class BodyRecorder extends Recorder {
  async wrapChildContextFn(info, body) {
    await this.write("fn-start", this.operation(info));
    let outcome = "FAILED";
    try {
      const value = await body();
      outcome = "SUCCEEDED";
      return value;
    } finally {
      await this.write("fn-end", { ...this.operation(info), outcome });
    }
  }
}

const any = () => new Recorder();
const steps = () => new Recorder({ only: "STEP" });
const waits = () => new Recorder({ only: "WAIT" });
const faulty = () => new Recorder({ name: "CONFPLUGIN-FAULTY", only: "STEP", fails: true });
const healthy = () => new Recorder({ name: "CONFPLUGIN-HEALTHY", only: "STEP" });

const seenBy = (plugins, handler) => withDurableExecution(handler, { plugins });

const greeting = (event, context) =>
  context.step(async (step) => {
    step.logger.info(`Greeting step running for: ${event}`);
    return `Hello, ${event}!`;
  });

const succeedLater = (context) => context.step(failingUntil(2, "Operation succeeded"), retrying());

export const greet = seenBy([steps()], greeting);
export const greetFaulty = seenBy([faulty()], greeting);
export const greetTwo = seenBy(
  ["CONFPLUGIN-A", "CONFPLUGIN-B"].map((name) => new Recorder({ name })),
  greeting,
);
export const greetFaultyAndHealthy = seenBy([faulty(), healthy()], greeting);
export const wait = seenBy([waits()], (_event, context) => context.wait({ seconds: 2 }));
export const retried = seenBy([steps()], (_event, context) => succeedLater(context));
export const fails = seenBy([any()], (_event, context) => context.step(refuse, never));

export const greetInAChild = seenBy([any()], (event, context) =>
  context.runInChildContext((inner) => greeting(event, inner)),
);

export const branches = seenBy([new BodyRecorder({ only: "CONTEXT" })], async (_event, context) => {
  const bodies = [giving("task-1"), giving("task-2")];
  return (await context.parallel("parallel", bodies, { maxConcurrency: 1 })).getResults();
});

export const oneRetried = seenBy([steps()], async (_event, context) => {
  await context.step(giving(null));
  return succeedLater(context);
});

export const secondFails = seenBy([steps()], async (_event, context) => {
  const boom = async () => {
    throw new Error("boom");
  };
  await context.step(giving("task-a"));
  return context.step(boom, never);
});

export const exhausted = seenBy([steps()], (_event, context) => context.step(refuse, retrying(2)));

export const twoWaits = seenBy([waits()], async (_event, context) => {
  const waiter = (name, seconds) => async (inner) => {
    await inner.wait(name, { seconds });
    return `${name}-done`;
  };
  return (await context.parallel("waits", [waiter("short", 2), waiter("long", 8)])).getResults();
});

export const namedStep = seenBy([new Recorder({ only: "STEP", whole: true })], (_event, context) =>
  context.step("greet", giving("task-a")),
);
