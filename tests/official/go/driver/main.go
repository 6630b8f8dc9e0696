// The AWS SDK for Go as a client: starts the functions of ../worker, looks at them, answers and stops
// them. Where the server is, the environment says, as for every AWS SDK.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
)

var (
	ctx    = context.Background()
	latest = aws.String("$LATEST")
	client = lambda.New(lambda.Options{
		Region:       os.Getenv("AWS_REGION"),
		BaseEndpoint: aws.String(os.Getenv("AWS_ENDPOINT_URL_LAMBDA")),
		Credentials: credentials.NewStaticCredentialsProvider(
			os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), ""),
		RetryMaxAttempts: 1,
	})
)

func main() {
	parts := []func(){executions, histories, lists, names, callbacks, stops, invokes, protocol, results}
	for _, part := range parts {
		begun := time.Now()
		part()
		name := runtime.FuncForPC(reflect.ValueOf(part).Pointer()).Name()
		name = name[strings.LastIndex(name, ".")+1:]
		fmt.Printf("    go client %s: %.1f s\n", name, time.Since(begun).Seconds())
	}
}

// What is not as it should be ends the program, with the place.
func check(is bool, what ...any) {
	if !is {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintln(os.Stderr, append([]any{fmt.Sprintf("%s:%d:", file, line)}, what...)...)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", file, line, err)
		os.Exit(1)
	}
	return value
}

// A refusal as a class of the client.
func refused[T error](err error) {
	var kind T
	_, file, line, _ := runtime.Caller(1)
	if !errors.As(err, &kind) {
		fmt.Fprintf(os.Stderr, "%s:%d: %T expected: %v\n", file, line, kind, err)
		os.Exit(1)
	}
	var api smithy.APIError
	check(errors.As(err, &api) && api.ErrorFault() == smithy.FaultClient && api.ErrorMessage() != "",
		fmt.Sprintf("%s:%d:", file, line), err)
}

func until[T any](what string, question func() *T) T {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if answer := question(); answer != nil {
			return *answer
		}
		time.Sleep(20 * time.Millisecond)
	}
	check(false, "waited in vain for", what)
	panic("not reached")
}

func written(value any) []byte { return must(json.Marshal(value)) }

// Calls a function and waits for its end.
func call(function string, payload any) *lambda.InvokeOutput {
	return must(client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &function, Qualifier: latest, Payload: written(payload),
	}))
}

// Starts an execution that nobody waits for.
func start(function string, payload any) *string {
	reply := must(client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &function, Qualifier: latest, Payload: written(payload),
		InvocationType: types.InvocationTypeEvent,
	}))
	check(reply.StatusCode == 202 && reply.DurableExecutionArn != nil, reply)
	return reply.DurableExecutionArn
}

func describe(arn *string) *lambda.GetDurableExecutionOutput {
	return must(client.GetDurableExecution(ctx, &lambda.GetDurableExecutionInput{DurableExecutionArn: arn}))
}

func ended(arn *string) lambda.GetDurableExecutionOutput {
	return until("the end of "+*arn, func() *lambda.GetDurableExecutionOutput {
		if described := describe(arn); described.Status != types.ExecutionStatusRunning {
			return described
		}
		return nil
	})
}

func history(arn *string, backwards bool) (events []types.Event) {
	pages := lambda.NewGetDurableExecutionHistoryPaginator(client, &lambda.GetDurableExecutionHistoryInput{
		DurableExecutionArn: arn, MaxItems: 3, ReverseOrder: &backwards,
		IncludeExecutionData: aws.Bool(true),
	})
	for pages.HasMorePages() {
		page := must(pages.NextPage(ctx))
		check(len(page.Events) <= 3, page.Events)
		events = append(events, page.Events...)
	}
	return events
}

func event(arn *string, kind types.EventType) types.Event {
	return until(string(kind), func() *types.Event {
		for _, event := range history(arn, false) {
			if event.EventType == kind {
				return &event
			}
		}
		return nil
	})
}

func key() string { return fmt.Sprintf("go-%d", time.Now().UnixNano()) }
