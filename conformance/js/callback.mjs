// Suites 4 and 7: callbacks, without and with a submitter.

import { withDurableExecution } from "@aws/durable-execution-sdk-js";
import { codec, giving, handled, refuse, retrying } from "./common.mjs";

const reply = async (context, name, config) => {
  const [answer] = await context.createCallback(name, config);
  return answer;
};

// A handler that awaits a callback which is named by its input.
const answered = (config) => withDurableExecution((event, context) => reply(context, event, config));

export const basic = answered();
export const timeout = answered({ timeout: { seconds: 5 } });
export const heartbeatTimeout = answered({ heartbeatTimeout: { seconds: 5 } });
export const heartbeat = answered({ heartbeatTimeout: { seconds: 10 } });

export const named = withDurableExecution((_event, context) => reply(context, "approval"));

// A handler that does something else between creating a callback and awaiting it.
const answeredAfter = (work, config) =>
  withDurableExecution(async (event, context) => {
    const [answer] = await context.createCallback(event, config);
    await work(context);
    return answer;
  });

const step = (context) => context.step(giving(null));

export const afterStep = answeredAfter(step);
export const stepThenTimeout = answeredAfter(step, { timeout: { seconds: 5 } });
export const afterWait = answeredAfter((context) => context.wait({ seconds: 5 }));
export const waitPastTimeout = answeredAfter((context) => context.wait({ seconds: 6 }), { timeout: { seconds: 3 } });

// A handler that waits when it has a reply, or what is said of its failure.
const thenWaiting = (config) =>
  withDurableExecution(async (event, context) => {
    const answer = await handled(reply(context, event, config), (error) => error.message);
    await context.wait({ seconds: 2 });
    return answer;
  });

export const thenWait = thenWaiting();
export const timeoutThenWait = thenWaiting({ timeout: { seconds: 3 } });

const readReply = (text) => {
  const read = JSON.parse(text);
  return { ...read, timestamp: Date.parse(read.timestamp) / 1000 };
};

export const typedReply = withDurableExecution(async (event, context) => ({
  received: await reply(context, event, { serdes: codec(JSON.stringify, readReply) }),
}));

export const numericReply = withDurableExecution(async (event, context) => {
  const count = await reply(context, event, { serdes: codec(String, Number) });
  return { count, doubled: count * 2 };
});

export const oneAfterAnother = withDurableExecution(async ([first, second], context) => [
  await reply(context, first),
  await reply(context, second),
]);

export const bothInOrder = withDurableExecution(async ([one, other], context) => {
  const [first] = await context.createCallback(one);
  const [second] = await context.createCallback(other);
  return [await first, await second];
});

export const bothInReverse = withDurableExecution(async ([one, other], context) => {
  const [first] = await context.createCallback(one);
  const [second] = await context.createCallback(other);
  const last = await second;
  return [await first, last];
});

// A handler that awaits a reply; the one who replies finds the id in the history.
const submitted = (config) =>
  withDurableExecution((event, context) => context.waitForCallback(event, giving(), config));

export const submittedBasic = submitted();
export const submittedTimeout = submitted({ timeout: { seconds: 3 } });
export const submittedHeartbeatTimeout = submitted({ heartbeatTimeout: { seconds: 5 } });
export const submittedHeartbeat = submitted({ heartbeatTimeout: { seconds: 10 } });

export const submittedNamed = withDurableExecution((_event, context) =>
  context.waitForCallback("approval", giving()),
);

export const submittedUnnamed = withDurableExecution((_event, context) => context.waitForCallback(giving()));

const submittedHandled = (fallback, config) =>
  withDurableExecution((event, context) =>
    handled(context.waitForCallback(event, giving(), config), () => fallback),
  );

export const submittedFailureHandled = submittedHandled("recovered");
export const submittedTimeoutHandled = submittedHandled("timed-out-handled", { timeout: { seconds: 3 } });

export const submitterFails = withDurableExecution((event, context) =>
  context.waitForCallback(event, refuse, retrying(2)),
);

export const submittedInAChild = withDurableExecution((event, context) =>
  context.runInChildContext("wrapper", (inner) => inner.waitForCallback(event, giving())),
);

export const submittedTwice = withDurableExecution(async (_event, context) => {
  await context.waitForCallback("first", giving());
  return context.waitForCallback("second", giving());
});

export const submittedAfterWaitAndStep = withDurableExecution(async (event, context) => {
  await context.wait({ seconds: 1 });
  await context.step(giving("fixed data"));
  return context.waitForCallback(event, giving());
});

export const submittedTyped = withDurableExecution(async (event, context) => {
  const serdes = codec(JSON.stringify, JSON.parse);
  return (await context.waitForCallback(event, giving(), { serdes })).status;
});
