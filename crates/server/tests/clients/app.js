// The handler of `examples/host_check.rs` for the Node runtime client.
//
//     cargo run -p outlast-server --example host_check -- npx aws-lambda-ric app.handler

exports.handler = async (event, context) => {
  const token = event.CheckpointToken;
  console.log("got", token, context.awsRequestId, context.tenantId);
  if (token === "fail") throw new TypeError("it was told to");
  if (token === "exit") process.exit(3);
  if (token === "hang") await new Promise((resolve) => setTimeout(resolve, 100_000));
  if (token === "big") return "x".repeat(7_000_000);
  return { Status: "SUCCEEDED", Result: context.invokedFunctionArn };
};
