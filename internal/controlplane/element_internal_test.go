package controlplane

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestElementsAreCheckedByField(t *testing.T) {
	read := func(raw string) error {
		in, err := jsonElement{"[1]", json.RawMessage(raw)}.members("name", "rate", "status", "id")
		if err != nil {
			return err
		}
		if _, err = in["name"].text(3); err == nil {
			_, err = in["rate"].number(0, 1, 1)
		}
		if err == nil {
			_, err = in["status"].integer(100, 599, 200)
		}
		if err == nil {
			_, err = in["id"].word()
		}
		return err
	}
	for _, tt := range []struct{ raw, want string }{
		{`{}`, ""},
		{`{"name":"äöü","rate":0.5,"status":404,"id":"a-1"}`, ""},
		{`{"name":null,"rate":null,"status":null,"id":null}`, ""},
		{`{"status":200.0}`, ""},
		{`[]`, "[1] must be a JSON object"},
		{`{"rate":0,"rate":1}`, "[1].rate is duplicated"},
		{`{"rate":0,"r\u0061te":1}`, "[1].rate is duplicated"},
		{`{"other":1}`, "[1].other is unknown; known fields are name, rate, status, id"},
		{`{"name":"äöüß"}`, "[1].name must be a string of at most 3 characters"},
		{`{"name":1}`, "[1].name must be a string of at most 3 characters"},
		{`{"rate":1.01}`, "[1].rate must be a number from 0 to 1"},
		{`{"rate":"1"}`, "[1].rate must be a number from 0 to 1"},
		{`{"status":99}`, "[1].status must be a number from 100 to 599"},
		{`{"status":200.5}`, "[1].status must be an integer from 100 to 599"},
		{`{"id":"ä"}`, "[1].id must contain only visible ASCII characters"},
	} {
		got := ""
		if err := read(tt.raw); err != nil {
			got = err.Error()
		}
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.raw, got, tt.want)
		}
	}
}
