package simulator

import (
	"encoding/binary"
	"encoding/json"
	"math"
)

// An embedRow is a row of a dataset with embeddings.
type embedRow struct {
	text   string
	more   []string // members of the input that are repeated
	vector []float64
}

// avroFile returns rows as an object container file of Avro. The repeated members
// and the vector are unions with null.
// https://avro.apache.org/docs/1.12.0/specification/#object-container-files
func avroFile(names []string, rows []embedRow) []byte {
	optional := func(v any) any { return []any{"null", v} }
	fields := []any{object{"name": "text", "type": "string"}}
	for _, name := range names {
		fields = append(fields, object{"name": name, "type": optional("string")})
	}
	fields = append(fields, object{"name": "embeddings", "type": object{"type": "record", "name": "embeddings", "fields": []any{
		object{"name": "float", "type": optional(object{"type": "array", "items": "double"})},
	}}})
	schema, _ := json.Marshal(object{"type": "record", "name": "row", "fields": fields}) // strings
	const sync = "simulator-sync16"
	dst := append([]byte("Obj"), 1)
	dst = binary.AppendVarint(dst, 2)
	dst = appendAvro(appendAvro(dst, "avro.codec"), "null")
	dst = appendAvro(appendAvro(dst, "avro.schema"), string(schema))
	dst = append(append(dst, 0), sync...)
	var block []byte
	for _, row := range rows {
		block = appendAvro(block, row.text)
		for _, value := range row.more {
			block = appendAvro(binary.AppendVarint(block, 1), value) // the second type of the union
		}
		block = binary.AppendVarint(binary.AppendVarint(block, 1), int64(len(row.vector)))
		for _, f := range row.vector {
			block = binary.LittleEndian.AppendUint64(block, math.Float64bits(f))
		}
		block = append(block, 0) // the end of the array
	}
	dst = binary.AppendVarint(binary.AppendVarint(dst, int64(len(rows))), int64(len(block)))
	return append(append(dst, block...), sync...)
}

// appendAvro appends a string with its length.
func appendAvro(dst []byte, text string) []byte {
	return append(binary.AppendVarint(dst, int64(len(text))), text...)
}
