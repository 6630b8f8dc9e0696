package official;

import com.amazonaws.services.lambda.runtime.Context;
import com.amazonaws.services.lambda.runtime.RequestHandler;
import java.util.Map;

/** Doubles a number, or fails or dies as it is told. Not durable. */
public class Plain implements RequestHandler<Map<String, Object>, Map<String, Object>> {
  @Override
  public Map<String, Object> handleRequest(Map<String, Object> event, Context context) {
    if (event.containsKey("exit")) {
      Runtime.getRuntime().halt(3);
    }
    if (context.getRemainingTimeInMillis() <= 0) {
      throw new IllegalStateException("no time is left");
    }
    int number = ((Number) event.get("n")).intValue();
    if (number < 0) {
      throw new IllegalArgumentException("as it was told");
    }
    return Map.of("n", number * 2, "function", context.getFunctionName());
  }
}
