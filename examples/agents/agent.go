// An agent in Go on `zero tools serve`, with the standard library:
//
//	MODEL_URL=http://127.0.0.1:11434/v1 MODEL=qwen3:8b go run agent.go "what does notes.txt say?"
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
)

type object = map[string]any

var (
	input  io.WriteCloser
	output *bufio.Reader
	lastID float64
)

func send(message object) {
	message["jsonrpc"] = "2.0"
	json.NewEncoder(input).Encode(message)
}

// request sends a request and returns its result. Whatever zero asks meanwhile is rejected.
func request(method string, params object) object {
	lastID++
	wanted := lastID
	send(object{"id": wanted, "method": method, "params": params})
	for {
		line, err := output.ReadBytes('\n')
		if err != nil {
			panic("zero ended")
		}
		var message object
		json.Unmarshal(line, &message)
		if message["method"] == "session/request_permission" {
			no := object{"outcome": object{"outcome": "selected", "optionId": "reject_once"}}
			send(object{"id": message["id"], "result": no})
		} else if message["method"] == nil && message["id"] == wanted {
			result, ok := message["result"].(object)
			if !ok {
				panic(message["error"])
			}
			return result
		}
	}
}

func complete(messages, tools []any) object {
	body, _ := json.Marshal(object{"model": os.Getenv("MODEL"), "messages": messages, "tools": tools})
	answer, err := http.Post(os.Getenv("MODEL_URL")+"/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	var completion struct{ Choices []struct{ Message object } }
	if json.NewDecoder(answer.Body).Decode(&completion); len(completion.Choices) == 0 {
		panic("the model answered " + answer.Status)
	}
	return completion.Choices[0].Message
}

func main() {
	zero := exec.Command("zero", "tools", "serve")
	input, _ = zero.StdinPipe()
	stdout, _ := zero.StdoutPipe()
	output = bufio.NewReader(stdout)
	zero.Start()
	var tools []any
	for _, listed := range request("tools/list", object{})["tools"].([]any) {
		tool := listed.(object)
		function := object{"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}
		tools = append(tools, object{"type": "function", "function": function})
	}
	messages := []any{object{"role": "user", "content": os.Args[1]}}
	for turn := 0; turn < 20; turn++ {
		message := complete(messages, tools)
		messages = append(messages, message)
		calls, _ := message["tool_calls"].([]any)
		if len(calls) == 0 {
			fmt.Println(message["content"])
			return // zero ends with its input
		}
		for _, made := range calls {
			call := made.(object)
			function := call["function"].(object)
			arguments := json.RawMessage(function["arguments"].(string))
			result := request("tools/use", object{"sessionId": "agent", "toolCallId": call["id"], "toolName": function["name"], "input": arguments})
			text, _ := json.Marshal(result["content"])
			messages = append(messages, object{"role": "tool", "tool_call_id": call["id"], "content": string(text)})
		}
	}
	panic("the model did not finish")
}
