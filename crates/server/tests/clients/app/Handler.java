// The handler of `examples/host_check.rs` for the Java runtime client.
//
//     javac -cp "$JARS" app/Handler.java
//     cargo run -p outlast-server --example host_check -- java -cp "$JARS:." \
//         com.amazonaws.services.lambda.runtime.api.client.AWSLambda app.Handler
//
// JARS: aws-lambda-java-runtime-interface-client, -core and -serialization.

package app;

import com.amazonaws.services.lambda.runtime.Context;
import com.amazonaws.services.lambda.runtime.RequestHandler;
import java.util.Map;

public class Handler implements RequestHandler<Map<String, Object>, Object> {
    @Override
    public Object handleRequest(Map<String, Object> event, Context context) {
        String token = (String) event.get("CheckpointToken");
        System.out.println("got " + token + " " + context.getAwsRequestId());
        switch (token) {
            case "fail":
                throw new IllegalStateException("it was told to");
            case "exit":
                Runtime.getRuntime().halt(3);
                return null;
            case "hang":
                try {
                    Thread.sleep(100_000);
                } catch (InterruptedException stopped) {
                    return null;
                }
                return null;
            case "big":
                return "x".repeat(7_000_000);
            default:
                return Map.of("Status", "SUCCEEDED", "Result", context.getInvokedFunctionArn());
        }
    }
}
