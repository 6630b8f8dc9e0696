// The AWS client of the JavaScript SDK against a server with keys, which are in the environment.

import assert from "node:assert/strict";
import * as lambda from "@aws-sdk/client-lambda";

const client = new lambda.LambdaClient({ maxAttempts: 1 });
const text = new TextDecoder();
const play = { FunctionName: "play", Qualifier: "$LATEST" };

async function refused(kind, sender, command) {
  await assert.rejects(sender.send(command), (error) => {
    assert.equal(error.name, kind);
    // Those of the model have a class of their own.
    if (kind in lambda) assert(error instanceof lambda[kind], `${kind} has another class`);
    assert(error.$metadata.requestId);
    return true;
  });
}

async function until(question) {
  for (let turn = 0; turn < 200; turn += 1) {
    const answer = await question();
    if (answer) return answer;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("waited in vain");
}

const script = JSON.stringify([{ step: 1 }, { return: ["ü", "/:$ +"] }]);
const done = await client.send(new lambda.InvokeCommand({ ...play, Payload: script }));
assert.deepEqual(JSON.parse(text.decode(done.Payload)), ["ü", "/:$ +"]);
const arn = done.DurableExecutionArn;
const described = await client.send(new lambda.GetDurableExecutionCommand({ DurableExecutionArn: arn }));
assert.equal(described.Status, "SUCCEEDED");
assert(described.StartTimestamp instanceof Date && described.StartTimestamp <= described.EndTimestamp);
const events = [];
for await (const page of lambda.paginateGetDurableExecutionHistory(
  { client, pageSize: 2 },
  { DurableExecutionArn: arn, ReverseOrder: true },
)) {
  events.push(...page.Events);
}
assert.deepEqual(events.map((event) => event.EventId), [5, 4, 3, 2, 1]);

const waiting = await client.send(
  new lambda.InvokeCommand({
    ...play,
    InvocationType: "Event",
    DurableExecutionName: `js-${Date.now()}`,
    Payload: JSON.stringify([{ callback: {} }]),
  }),
);
const of = { DurableExecutionArn: waiting.DurableExecutionArn };
const callback = await until(async () => {
  const history = await client.send(new lambda.GetDurableExecutionHistoryCommand(of));
  return history.Events.find((event) => event.CallbackStartedDetails)?.CallbackStartedDetails.CallbackId;
});
await client.send(new lambda.SendDurableExecutionCallbackHeartbeatCommand({ CallbackId: callback }));
await client.send(
  new lambda.SendDurableExecutionCallbackSuccessCommand({ CallbackId: callback, Result: "1" }),
);
await refused(
  "CallbackTimeoutException",
  client,
  new lambda.SendDurableExecutionCallbackFailureCommand({ CallbackId: callback, Error: {} }),
);
await until(
  async () => (await client.send(new lambda.GetDurableExecutionCommand(of))).Status === "SUCCEEDED",
);
const stopped = await client.send(new lambda.StopDurableExecutionCommand(of));
assert(stopped.StopTimestamp instanceof Date);
const listed = await client.send(
  new lambda.ListDurableExecutionsByFunctionCommand({
    ...play,
    Statuses: ["SUCCEEDED", "FAILED"],
    StartedAfter: new Date(0),
    MaxItems: 1,
  }),
);
assert.equal(listed.DurableExecutions[0].DurableExecutionArn, of.DurableExecutionArn);
assert(listed.NextMarker);

await refused("InvalidParameterValueException", client, new lambda.InvokeCommand({ FunctionName: "play" }));
await refused(
  "ResourceNotFoundException",
  client,
  new lambda.InvokeCommand({ FunctionName: "nobody", Qualifier: "1" }),
);
await refused("AccessDeniedException", client, new lambda.DeleteFunctionCommand({ FunctionName: "play" }));
const wrong = new lambda.LambdaClient({
  maxAttempts: 1,
  credentials: { accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: "not the secret" },
});
await refused("InvalidSignatureException", wrong, new lambda.ListFunctionsCommand({}));
console.log("all held");
