package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// Where operations of a handler stand: at the top, or in a context.
type place struct {
	context.Context
	*execution
	path   string
	parent *string
	number int
}

// What an operation failed with, as it was recorded.
type recorded struct {
	status types.OperationStatus
	kind   string
	text   string
}

func (r *recorded) Error() string { return fmt.Sprintf("%s: %s: %s", r.status, r.kind, r.text) }

func failed(operation *types.Operation, cause *types.ErrorObject) error {
	if cause == nil {
		cause = &types.ErrorObject{}
	}
	kind, text := aws.ToString(cause.ErrorType), aws.ToString(cause.ErrorMessage)
	return &recorded{operation.Status, kind, text}
}

func (p *place) next() string {
	p.number++
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s-%d", p.path, p.number)))
	return hex.EncodeToString(sum[:])[:32]
}

func (p *place) update(
	id string, kind types.OperationType, action types.OperationAction, name, subtype string,
) types.OperationUpdate {
	update := types.OperationUpdate{
		Id: &id, Type: kind, Action: action, ParentId: p.parent, SubType: &subtype,
	}
	if name != "" {
		update.Name = &name
	}
	return update
}

func problem(err error) *types.ErrorObject {
	return &types.ErrorObject{
		ErrorType: aws.String("HandlerError"), ErrorMessage: aws.String(err.Error()),
		StackTrace: []string{"worker/durable.go", "worker/handlers.go"},
	}
}

func text(result any) (*string, error) {
	written, err := json.Marshal(result)
	return aws.String(string(written)), err
}

// Into what a handler expects; nothing where an operation has no result.
func read(result *string, into any) error {
	if result == nil || into == nil {
		return nil
	}
	return json.Unmarshal([]byte(*result), into)
}

// Runs a step until it is recorded. Up to three attempts, a second apart.
func (p *place) step(name string, into any, body func(attempt int32) (any, error)) error {
	id := p.next()
	change := func(action types.OperationAction) types.OperationUpdate {
		return p.update(id, types.OperationTypeStep, action, name, "Step")
	}
	known := p.operation(id)
	if known == nil || known.Status == types.OperationStatusReady {
		if err := p.checkpoint(p, change(types.OperationActionStart)); err != nil {
			return err
		}
		known = p.operation(id)
	}
	switch known.Status {
	case types.OperationStatusSucceeded:
		return read(known.StepDetails.Result, into)
	case types.OperationStatusFailed:
		return failed(known, known.StepDetails.Error)
	case types.OperationStatusPending:
		if known.StepDetails.NextAttemptTimestamp == nil {
			return fmt.Errorf("nobody says when %s is tried again", name)
		}
		return errSuspended
	case types.OperationStatusStarted:
	default:
		return fmt.Errorf("the step %s is %s", name, known.Status)
	}
	attempt := int32(1)
	if known.StepDetails != nil {
		// Those that are over.
		attempt += known.StepDetails.Attempt
	}
	result, err := body(attempt)
	if err != nil && attempt < 3 {
		retry := change(types.OperationActionRetry)
		retry.Error = problem(err)
		retry.StepOptions = &types.StepOptions{NextAttemptDelaySeconds: aws.Int32(1)}
		if err := p.checkpoint(p, retry); err != nil {
			return err
		}
		return errSuspended
	}
	end := change(types.OperationActionSucceed)
	if err != nil {
		end = change(types.OperationActionFail)
		end.Error = problem(err)
	} else if end.Payload, err = text(result); err != nil {
		return err
	}
	if err := p.checkpoint(p, end); err != nil {
		return err
	}
	known = p.operation(id)
	if known.Status == types.OperationStatusFailed {
		return failed(known, known.StepDetails.Error)
	}
	return read(known.StepDetails.Result, into)
}

// Starts an operation that others end, if it is not known yet.
func (p *place) started(id string, start types.OperationUpdate) (*types.Operation, error) {
	if p.operation(id) == nil {
		if err := p.checkpoint(p, start); err != nil {
			return nil, err
		}
	}
	known := p.operation(id)
	if known == nil {
		return nil, fmt.Errorf("%s was started, and the answer does not say so", id)
	}
	return known, nil
}

func (p *place) wait(name string, seconds int32) error {
	id := p.next()
	start := p.update(id, types.OperationTypeWait, types.OperationActionStart, name, "Wait")
	start.WaitOptions = &types.WaitOptions{WaitSeconds: &seconds}
	known, err := p.started(id, start)
	if err != nil || known.Status == types.OperationStatusSucceeded {
		return err
	}
	if known.WaitDetails == nil || known.WaitDetails.ScheduledEndTimestamp == nil {
		return fmt.Errorf("nobody says when %s ends", name)
	}
	return errSuspended
}

// A callback's id, and what its result is once there is one.
func (p *place) callback(
	name string, options *types.CallbackOptions,
) (string, func(into any) error, error) {
	id := p.next()
	start := p.update(id, types.OperationTypeCallback, types.OperationActionStart, name, "Callback")
	start.CallbackOptions = options
	known, err := p.started(id, start)
	if err != nil {
		return "", nil, err
	}
	details := known.CallbackDetails
	if details == nil || aws.ToString(details.CallbackId) == "" {
		return "", nil, fmt.Errorf("the callback %s has no id", name)
	}
	result := func(into any) error {
		switch known.Status {
		case types.OperationStatusSucceeded:
			return read(details.Result, into)
		case types.OperationStatusFailed, types.OperationStatusTimedOut:
			return failed(known, details.Error)
		}
		return errSuspended
	}
	return *details.CallbackId, result, nil
}

func (p *place) invoke(name, function string, payload, into any) error {
	id := p.next()
	start := p.update(
		id, types.OperationTypeChainedInvoke, types.OperationActionStart, name, "ChainedInvoke")
	start.ChainedInvokeOptions = &types.ChainedInvokeOptions{FunctionName: &function}
	var err error
	if start.Payload, err = text(payload); err != nil {
		return err
	}
	known, err := p.started(id, start)
	if err != nil {
		return err
	}
	switch known.Status {
	case types.OperationStatusStarted:
		return errSuspended
	case types.OperationStatusSucceeded:
		return read(known.ChainedInvokeDetails.Result, into)
	}
	if known.ChainedInvokeDetails == nil {
		return failed(known, nil)
	}
	return failed(known, known.ChainedInvokeDetails.Error)
}

// A block with operations of its own, recorded as one.
func (p *place) child(name, subtype string, into any, body func(*place) (any, error)) error {
	id := p.next()
	change := func(action types.OperationAction) types.OperationUpdate {
		return p.update(id, types.OperationTypeContext, action, name, subtype)
	}
	known, err := p.started(id, change(types.OperationActionStart))
	if err != nil {
		return err
	}
	switch known.Status {
	case types.OperationStatusSucceeded:
		return read(known.ContextDetails.Result, into)
	case types.OperationStatusFailed:
		return failed(known, known.ContextDetails.Error)
	}
	inside := &place{Context: p.Context, execution: p.execution, path: id, parent: &id}
	result, err := body(inside)
	var lost *refused
	if errors.Is(err, errSuspended) || errors.As(err, &lost) {
		return err
	}
	end := change(types.OperationActionSucceed)
	if err != nil {
		end = change(types.OperationActionFail)
		end.Error = problem(err)
	} else if end.Payload, err = text(result); err != nil {
		return err
	}
	if err := p.checkpoint(p, end); err != nil {
		return err
	}
	known = p.operation(id)
	if known.Status == types.OperationStatusFailed {
		return failed(known, known.ContextDetails.Error)
	}
	return read(known.ContextDetails.Result, into)
}

// Branches side by side, each in a context of its own. They may not wait.
func (p *place) all(
	name, subtype, inner string, count int, body func(*place, int) (any, error),
) ([]json.RawMessage, error) {
	var results []json.RawMessage
	err := p.child(name, subtype, &results, func(within *place) (any, error) {
		results := make([]json.RawMessage, count)
		errs := make(chan error, count)
		for index := range count {
			// Paths of their own, so that the order in which they run means nothing.
			branch := *within
			branch.path = fmt.Sprintf("%s/%d", within.path, index)
			go func() {
				errs <- branch.child("", inner, &results[index], func(own *place) (any, error) {
					return body(own, index)
				})
			}()
		}
		var all error
		for range count {
			all = errors.Join(all, <-errs)
		}
		return results, all
	})
	return results, err
}
