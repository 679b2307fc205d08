//go:build wasip1

// Command guardrail-module is a check of guardrails that finds names of internal
// tickets.
//
// It reads the request and response to check from standard input and writes its
// verdict to standard output, both as JSON. README.md in the folder above says how to
// build and upload it.
package main

import (
	"encoding/json"
	"os"
	"regexp"
)

var ticket = regexp.MustCompile(`\bACME-[0-9]+\b`)

// input has what the check needs of what it is sent.
type input struct {
	Request, Response struct{ Text string }
}

// reply passes a text if Verdict is true. Data is shown in hook_results.
type reply struct {
	Verdict bool `json:"verdict"`
	Data    data `json:"data"`
}

type data struct {
	Tickets int `json:"tickets"`
}

func main() {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		os.Exit(1) // an error of the check
	}
	found := ticket.FindAllString(in.Request.Text+"\n"+in.Response.Text, -1)
	if err := json.NewEncoder(os.Stdout).Encode(reply{len(found) == 0, data{len(found)}}); err != nil {
		os.Exit(1)
	}
}
