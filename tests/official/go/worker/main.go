// Handlers that speak the checkpoint protocol by hand, through the AWS SDK for Go and nothing else,
// on AWS's Lambda runtime for Go: what an official durable SDK would do stands in protocol.go and
// durable.go. Which of them this process serves, the function's name says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	runtime "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// Calls a handler for one invocation, and says how that ended.
type durable func(*place) (any, error)

func (handler durable) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	execution, err := begin(ctx, event)
	if err != nil {
		return nil, err
	}
	result, err := handler(&place{Context: ctx, execution: execution})
	var lost *refused
	switch {
	case errors.Is(err, errSuspended):
		return json.Marshal(answer{Status: "PENDING"})
	case errors.As(err, &lost) && lost.passes():
		// The invocation fails, and the execution goes on in another one.
		return nil, err
	case err != nil:
		problem := problem(err)
		return json.Marshal(answer{Status: "FAILED", Error: &failure{
			ErrorType: *problem.ErrorType, ErrorMessage: *problem.ErrorMessage,
			StackTrace: problem.StackTrace,
		}})
	}
	written, err := text(result)
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer{Status: "SUCCEEDED", Result: written})
}

func main() {
	handlers := map[string]runtime.Handler{
		"Everything": durable(everything),
		"Chain":      durable(chain),
		"Fails":      durable(fails),
		"Double":     runtime.NewHandler(double),
		"Pages":      durable(pages),
		"Tokens":     durable(tokens),
		"Stopped":    durable(stopped),
		"Large":      large{},
		"Asks":       durable(asks),
		"Calls":      durable(calls),
	}
	runtime.StartHandler(handlers[os.Getenv("AWS_LAMBDA_FUNCTION_NAME")])
}

// Into what a function was started with.
func (e *execution) event(into any) error { return read(aws.String(string(e.input)), into) }
