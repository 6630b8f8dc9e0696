package official;

import com.amazonaws.services.lambda.runtime.Context;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import software.amazon.awssdk.awscore.exception.AwsServiceException;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.lambda.model.CallbackOptions;
import software.amazon.awssdk.services.lambda.model.ErrorObject;

/**
 * Handlers that speak the checkpoint protocol by hand, through the AWS SDK for Java and nothing else.
 * They do what those in ../python/app.py do.
 */
public final class Handlers {
  /** Calls a handler for one invocation, and says how that ended. */
  static void serve(InputStream event, OutputStream answer, Place.Body<Place> body)
      throws Exception {
    var said = new LinkedHashMap<String, Object>();
    try {
      var execution = new Execution(event.readAllBytes());
      said.put("Status", "SUCCEEDED");
      Object result = body.run(new Place(execution, execution.arn, null));
      said.put("Result", Execution.JSON.writeValueAsString(result));
      // The official SDK writes what there is not.
      said.put("Error", null);
    } catch (Execution.Suspended suspended) {
      said.put("Status", "PENDING");
    } catch (SdkException error) {
      // Another invocation may do better, except where the service says that this is wrong.
      if (!(error instanceof AwsServiceException refused) || refused.statusCode() >= 500
          || refused.isThrottlingException() || Execution.stale(refused)) {
        throw error;
      }
      failed(said, error);
    } catch (Exception error) {
      failed(said, error);
    }
    Execution.JSON.writeValue(answer, said);
  }

  private static void failed(Map<String, Object> said, Exception error) {
    ErrorObject problem = Place.problem(error);
    said.put("Status", "FAILED");
    said.put("Error", Map.of(
        "ErrorType", problem.errorType(),
        "ErrorMessage", String.valueOf(problem.errorMessage()),
        "StackTrace", problem.stackTrace()));
  }

  /** Adds a line with the time and this process; returns how often it was added before. */
  static synchronized int ledger(String... words) throws IOException {
    var file = Path.of(System.getenv("LEDGER"));
    String line = String.join(" ", words);
    int before = 0;
    if (Files.exists(file)) {
      for (String known : Files.readAllLines(file)) {
        String[] parts = known.split(" ", 3);
        before += parts.length == 3 && parts[2].equals(line) ? 1 : 0;
      }
    }
    long process = ProcessHandle.current().pid();
    String full = System.currentTimeMillis() + " " + process + " " + line + "\n";
    Files.write(file, full.getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE,
        StandardOpenOption.APPEND);
    return before;
  }

  /** A step's body that writes down that it ran. */
  private static Place.Body<Integer> noted(String key, String name, Object result) {
    return attempt -> {
      ledger(key, name, "begin");
      ledger(key, name, "end");
      return result;
    };
  }

  private static Place.Body<Place> branch(String key, String name, Object result) {
    return place -> place.step(name, noted(key, name, result));
  }

  public void everything(InputStream event, OutputStream answer, Context context) throws Exception {
    serve(event, answer, place -> {
      JsonNode input = place.execution.input();
      String key = input.get("key").textValue();
      var result = new LinkedHashMap<String, Object>();
      result.put("flaky", place.step("flaky", attempt -> {
        int before = ledger(key, "flaky", "begin");
        if (attempt != before + 1) {
          throw new IllegalStateException("attempt " + attempt + " ran " + before + " times before");
        }
        if (attempt == 1) {
          throw new IllegalStateException("the first attempt fails");
        }
        ledger(key, "flaky", "end");
        return "in the end";
      }));
      place.wait("pause", 1);
      result.put("approval", place.child("approval", "WaitForCallback", inner -> {
        var options = CallbackOptions.builder().timeoutSeconds(300).build();
        var approval = inner.callback(null, options);
        inner.step("ask", noted(key, "ask", null));
        return approval.result();
      }));
      var number = Map.of("n", 21);
      result.put("doubled", place.invoke("double", System.getenv("DOUBLE"), number));
      var below = Map.of("key", key + "-chained", "steps", 4);
      result.put("chained", place.invoke("chain", System.getenv("CHAIN"), below));
      result.put("inside", place.child("child", "RunInChildContext", inner -> {
        int one = inner.step("child-one", noted(key, "child-one", 1)).intValue();
        inner.wait("child-pause", 1);
        return one + inner.step("child-two", noted(key, "child-two", 2)).intValue();
      }));
      result.put("squares", place.all("squares", "Map", "MapIteration", List.of(
          branch(key, "square-0", 1), branch(key, "square-1", 4), branch(key, "square-2", 9))));
      result.put("both", place.all("both", "Parallel", "ParallelBranch", List.of(
          branch(key, "left", "l"), branch(key, "right", "r"))));
      result.put("crash", !input.path("crash").booleanValue() ? null : place.step("crash", attempt -> {
        if (ledger(key, "crash", "begin") == 0) {
          Thread.sleep(600_000);
        }
        if (attempt != 1) {
          throw new IllegalStateException("a process that died used up an attempt: " + attempt);
        }
        ledger(key, "crash", "end");
        return "survived";
      }));
      return result;
    });
  }

  /** Steps one after another, slow enough to be killed in. */
  public void chain(InputStream event, OutputStream answer, Context context) throws Exception {
    serve(event, answer, place -> {
      JsonNode input = place.execution.input();
      String key = input.get("key").textValue();
      int total = 0;
      for (int number = 0; number < input.get("steps").intValue(); number++) {
        String name = "link-" + number;
        int link = number;
        total += place.step(name, attempt -> {
          ledger(key, name, "begin");
          Thread.sleep(20);
          ledger(key, name, "end");
          return link;
        }).intValue();
        if (number % 10 == 9) {
          place.wait(null, 1);
        }
      }
      return total;
    });
  }

  public void fails(InputStream event, OutputStream answer, Context context) throws Exception {
    serve(event, answer, place -> {
      throw new IllegalArgumentException("as it was told");
    });
  }

  /** Not durable. */
  public Map<String, Integer> twice(Map<String, Integer> event) {
    return Map.of("n", event.get("n") * 2);
  }
}
