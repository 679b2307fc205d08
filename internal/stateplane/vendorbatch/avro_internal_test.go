package vendorbatch

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The files, in base64, were written by fastavro 1.12 for Python.
func TestAvroFilesAreJSON(t *testing.T) {
	want := `{"text":"text 1\n\"é\"","custom_id":"e1","rank":"HIGH","meta":{"a":-1},"digest":"YWJjZA==","again":"ZWZnaA==","ok":true,"score":0.5,"raw":"AP8=",` +
		`"embeddings":{"float":[1.1,-2,0.0000001],"int8":null}}`
	for _, name := range []string{"testdata/embed-null.txt", "testdata/embed-deflate.txt"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for record, err := range avroRecords(bytes.NewReader(data)) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(record))
		}
		if len(all) != 3 {
			t.Fatalf("%s has %d records, want 3", name, len(all))
		}
		var got, expected any
		if json.Unmarshal([]byte(all[1]), &got) != nil || json.Unmarshal([]byte(want), &expected) != nil {
			t.Fatalf("%s is not JSON", all[1])
		}
		if !strings.Contains(all[1], `[1.1,-2,`) || !jsonEqual(got, expected) {
			t.Errorf("%s: the second record is\n%s\nwant\n%s", name, all[1], want)
		}
	}
}

func jsonEqual(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && bytes.Equal(x, y)
}

// avro returns a file with a schema and one block.
func avro(schema string, records int64, data []byte) []byte {
	text := func(b []byte, s string) []byte { return append(binary.AppendVarint(b, int64(len(s))), s...) }
	b := append([]byte("Obj\x01"), 2)
	b = text(text(b, "avro.schema"), schema)
	b = append(append(b, 0), "0123456789abcdef"...)
	b = binary.AppendVarint(binary.AppendVarint(b, records), int64(len(data)))
	return append(append(b, data...), "0123456789abcdef"...)
}

func TestHostileAvroFilesAreErrors(t *testing.T) {
	many := binary.AppendVarint(nil, 1<<60)
	for name, file := range map[string][]byte{
		"not Avro":          []byte("<html>"),
		"empty":             {},
		"cut":               avro(`"string"`, 1, []byte{4, 'a', 'b'})[:60],
		"negative length":   avro(`"string"`, 1, []byte{1}),
		"long string":       avro(`"string"`, 1, many),
		"empty values":      avro(`{"type":"array","items":"null"}`, 1, many),
		"recursive type":    avro(`{"type":"record","name":"r","fields":[{"name":"f","type":"r"}]}`, 1, []byte{0}),
		"unknown type":      avro(`"other"`, 1, []byte{0}),
		"index of a union":  avro(`["null"]`, 1, []byte{4}),
		"many records":      avro(`"null"`, 1<<40, nil),
		"schema is no JSON": avro(`{`, 1, nil),
		"least count":       avro(`{"type":"array","items":"null"}`, 1, binary.AppendVarint(nil, -1<<63)),
	} {
		n, failed := 0, false
		for _, err := range avroRecords(bytes.NewReader(file)) {
			failed = err != nil
			n++
		}
		if !failed || n > 2 {
			t.Errorf("%s: %d records, failed: %t", name, n, failed)
		}
	}
}

func FuzzAvroRecords(f *testing.F) {
	f.Add(avro(`["null","string"]`, 1, []byte{2, 2, 'a'}))
	f.Add(avro(`{"type":"array","items":"float"}`, 1, []byte{2, 0, 0, 0, 0, 0}))
	f.Fuzz(func(t *testing.T, data []byte) {
		for record, err := range avroRecords(bytes.NewReader(data)) {
			if err == nil && !json.Valid(record) {
				t.Errorf("%q is not JSON", record)
			}
		}
	})
}
