package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// The handlers of this file do what those in ../../python/app.py do.

type event struct {
	Key   string `json:"key"`
	Crash bool   `json:"crash"`
	Steps int    `json:"steps"`
}

// Adds a line with the time and this process; returns how often it was added before.
func ledger(words ...string) int {
	line := strings.Join(words, " ")
	known, _ := os.ReadFile(os.Getenv("LEDGER"))
	before := 0
	for _, other := range strings.Split(string(known), "\n") {
		if parts := strings.SplitN(other, " ", 3); len(parts) == 3 && parts[2] == line {
			before++
		}
	}
	file, err := os.OpenFile(os.Getenv("LEDGER"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%d %d %s\n", time.Now().UnixMilli(), os.Getpid(), line); err != nil {
		panic(err)
	}
	return before
}

// A step's body that writes down that it ran.
func noted(key, name string, result any) func(int32) (any, error) {
	return func(int32) (any, error) {
		ledger(key, name, "begin")
		ledger(key, name, "end")
		return result, nil
	}
}

func everything(p *place) (any, error) {
	var of event
	if err := p.event(&of); err != nil {
		return nil, err
	}
	var result struct {
		Flaky    string            `json:"flaky"`
		Approval string            `json:"approval"`
		Doubled  json.RawMessage   `json:"doubled"`
		Chained  int               `json:"chained"`
		Inside   int               `json:"inside"`
		Squares  []json.RawMessage `json:"squares"`
		Both     []json.RawMessage `json:"both"`
		Crash    *string           `json:"crash"`
	}
	err := p.step("flaky", &result.Flaky, func(attempt int32) (any, error) {
		if before := ledger(of.Key, "flaky", "begin"); attempt != int32(before)+1 {
			return nil, fmt.Errorf("attempt %d ran %d times before", attempt, before)
		}
		if attempt == 1 {
			return nil, errors.New("the first attempt fails")
		}
		ledger(of.Key, "flaky", "end")
		return "in the end", nil
	})
	if err != nil {
		return nil, err
	}
	if err := p.wait("pause", 1); err != nil {
		return nil, err
	}
	err = p.child("approval", "WaitForCallback", &result.Approval, func(p *place) (any, error) {
		_, approval, err := p.callback("", &types.CallbackOptions{TimeoutSeconds: 300})
		if err != nil {
			return nil, err
		}
		if err := p.step("ask", nil, noted(of.Key, "ask", nil)); err != nil {
			return nil, err
		}
		var answer string
		return &answer, approval(&answer)
	})
	if err != nil {
		return nil, err
	}
	n := map[string]int{"n": 21}
	if err := p.invoke("double", os.Getenv("DOUBLE"), n, &result.Doubled); err != nil {
		return nil, err
	}
	below := map[string]any{"key": of.Key + "-chained", "steps": 4}
	if err := p.invoke("chain", os.Getenv("CHAIN"), below, &result.Chained); err != nil {
		return nil, err
	}
	err = p.child("child", "RunInChildContext", &result.Inside, func(p *place) (any, error) {
		var one, two int
		if err := p.step("child-one", &one, noted(of.Key, "child-one", 1)); err != nil {
			return nil, err
		}
		if err := p.wait("child-pause", 1); err != nil {
			return nil, err
		}
		err := p.step("child-two", &two, noted(of.Key, "child-two", 2))
		return one + two, err
	})
	if err != nil {
		return nil, err
	}
	branch := func(name string, value any) func(*place) (any, error) {
		return func(p *place) (result any, err error) {
			err = p.step(name, &result, noted(of.Key, name, value))
			return result, err
		}
	}
	result.Squares, err = p.all("squares", "Map", "MapIteration", 3, func(p *place, i int) (any, error) {
		return branch(fmt.Sprintf("square-%d", i), (i+1)*(i+1))(p)
	})
	if err != nil {
		return nil, err
	}
	result.Both, err = p.all("both", "Parallel", "ParallelBranch", 2, func(p *place, i int) (any, error) {
		return branch([]string{"left", "right"}[i], []string{"l", "r"}[i])(p)
	})
	if err != nil || !of.Crash {
		return result, err
	}
	result.Crash = aws.String("")
	err = p.step("crash", result.Crash, func(attempt int32) (any, error) {
		if ledger(of.Key, "crash", "begin") == 0 {
			time.Sleep(10 * time.Minute)
		}
		if attempt != 1 {
			return nil, fmt.Errorf("a process that died used up an attempt: this is number %d", attempt)
		}
		ledger(of.Key, "crash", "end")
		return "survived", nil
	})
	return result, err
}

// Steps one after another, slow enough to be killed in.
func chain(p *place) (any, error) {
	var of event
	if err := p.event(&of); err != nil {
		return nil, err
	}
	total := 0
	for number := range of.Steps {
		name, link := fmt.Sprintf("link-%d", number), 0
		err := p.step(name, &link, func(int32) (any, error) {
			ledger(of.Key, name, "begin")
			time.Sleep(20 * time.Millisecond)
			ledger(of.Key, name, "end")
			return number, nil
		})
		if err != nil {
			return nil, err
		}
		total += link
		if number%10 == 9 {
			if err := p.wait("", 1); err != nil {
				return nil, err
			}
		}
	}
	return total, nil
}

func fails(*place) (any, error) { return nil, errors.New("as it was told") }

// Not durable.
func double(event map[string]int) (map[string]int, error) {
	return map[string]int{"n": event["n"] * 2}, nil
}
