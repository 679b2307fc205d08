package vendorbatch

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"modelgate/internal/format/jsonedit"
)

// Bounds of files in Avro's format, which come from a vendor's storage.
const (
	maxAvroBlock  = 64 << 20
	maxAvroDepth  = 32
	maxAvroValues = 1 << 20 // of a record
	maxAvroHeader = 4 << 20
)

var errAvro = errors.New("the file is not in the Avro format")

// avroRecords yields the records of a container file as JSON; a union is the value in
// it. It holds one block of the file. A record is valid until the next.
// https://avro.apache.org/docs/1.11.1/specification/
func avroRecords(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := avroFile{in: bufio.NewReaderSize(r, 64<<10)}
		if err := in.header(); err != nil {
			yield(nil, err)
			return
		}
		for {
			n, data, err := in.block()
			if err == io.EOF {
				return
			}
			d := avroDecoder{data: data, types: in.types}
			for i := int64(0); err == nil && i < n; i++ {
				d.values = 0
				d.out = jsonedit.AppendLine(d.out.Bytes()[:0])
				if err = d.value(in.schema, 0); err == nil && !yield(d.out.Bytes(), nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// avroFile reads the blocks of a container file.
type avroFile struct {
	in      *bufio.Reader
	deflate bool
	sync    [16]byte
	schema  any
	types   map[string]any // by name
}

// header reads the schema and the compression.
func (f *avroFile) header() error {
	var magic [4]byte
	if _, err := io.ReadFull(f.in, magic[:]); err != nil || string(magic[:]) != "Obj\x01" {
		return errAvro
	}
	meta := map[string][]byte{}
	for {
		n, err := f.long()
		if n < 0 && err == nil { // the size in bytes follows
			if n == math.MinInt64 {
				return errAvro
			}
			n = -n
			_, err = f.long()
		}
		if err != nil || n > 1000 {
			return errAvro
		}
		if n == 0 {
			break
		}
		for range n {
			name, err := f.bytes(maxAvroHeader)
			if err != nil {
				return err
			}
			if meta[string(name)], err = f.bytes(maxAvroHeader); err != nil {
				return err
			}
		}
	}
	switch codec := string(meta["avro.codec"]); codec {
	case "", "null":
	case "deflate":
		f.deflate = true
	default:
		return fmt.Errorf("the compression %.20q of an Avro file is unsupported", codec)
	}
	if json.Unmarshal(meta["avro.schema"], &f.schema) != nil {
		return errAvro
	}
	f.types = map[string]any{}
	f.collect(f.schema, 0)
	_, err := io.ReadFull(f.in, f.sync[:])
	return err
}

// collect finds the types that a schema names.
func (f *avroFile) collect(schema any, depth int) {
	if depth > maxAvroDepth {
		return
	}
	switch s := schema.(type) {
	case []any:
		for _, e := range s {
			f.collect(e, depth+1)
		}
	case map[string]any:
		if name, ok := s["name"].(string); ok {
			f.types[name] = s
			if space, ok := s["namespace"].(string); ok {
				f.types[space+"."+name] = s
			}
		}
		for _, member := range []string{"type", "items", "values"} {
			f.collect(s[member], depth+1)
		}
		fields, _ := s["fields"].([]any)
		for _, e := range fields {
			if field, ok := e.(map[string]any); ok {
				f.collect(field["type"], depth+1)
			}
		}
	}
}

func (f *avroFile) long() (int64, error) {
	n, err := binary.ReadVarint(f.in)
	if err == io.ErrUnexpectedEOF {
		return 0, errAvro
	}
	return n, err
}

func (f *avroFile) bytes(most int64) ([]byte, error) {
	n, err := f.long()
	if err != nil || n < 0 || n > most {
		return nil, errAvro
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, f.in, n); err != nil {
		return nil, errAvro
	}
	return b.Bytes(), nil
}

// block returns the number of records in the next block and their bytes, or io.EOF.
func (f *avroFile) block() (int64, []byte, error) {
	n, err := f.long()
	if err != nil {
		return 0, nil, err
	}
	data, err := f.bytes(maxAvroBlock)
	if err != nil {
		return 0, nil, err
	}
	var sync [16]byte
	if _, err := io.ReadFull(f.in, sync[:]); err != nil || sync != f.sync || n < 0 {
		return 0, nil, errAvro
	}
	if f.deflate {
		data, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data)), maxAvroBlock+1))
		if err != nil || len(data) > maxAvroBlock {
			return 0, nil, errAvro
		}
	}
	if n > int64(len(data))+1 {
		return 0, nil, errAvro // every record has a byte
	}
	return n, data, nil
}

// avroDecoder writes the values of a block as JSON.
type avroDecoder struct {
	data   []byte
	types  map[string]any
	out    jsonedit.Builder
	values int // of the record
}

func (d *avroDecoder) long() (int64, error) {
	n, size := binary.Varint(d.data)
	if size <= 0 {
		return 0, errAvro
	}
	d.data = d.data[size:]
	return n, nil
}

func (d *avroDecoder) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(d.data)) {
		return nil, errAvro
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b, nil
}

func (d *avroDecoder) text() ([]byte, error) {
	n, err := d.long()
	if err != nil {
		return nil, err
	}
	return d.take(n)
}

// value writes the value of a schema.
func (d *avroDecoder) value(schema any, depth int) error {
	if d.values++; depth > maxAvroDepth || d.values > maxAvroValues {
		return errAvro
	}
	switch s := schema.(type) {
	case string:
		return d.primitive(s, depth)
	case []any: // a union
		i, err := d.long()
		if err != nil || i < 0 || i >= int64(len(s)) {
			return errAvro
		}
		return d.value(s[i], depth+1)
	case map[string]any:
		return d.complex(s, depth)
	}
	return errAvro
}

// primitive writes a value of a primitive or a named type.
func (d *avroDecoder) primitive(name string, depth int) error {
	switch name {
	case "null":
		d.out.Null()
	case "boolean":
		b, err := d.take(1)
		if err != nil {
			return err
		}
		d.out.Bool(b[0] == 1)
	case "int", "long":
		n, err := d.long()
		if err != nil {
			return err
		}
		d.out.Int(n)
	case "float":
		b, err := d.take(4)
		if err != nil {
			return err
		}
		d.out.Float(shortFloat(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case "double":
		b, err := d.take(8)
		if err != nil {
			return err
		}
		d.out.Float(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case "string":
		b, err := d.text()
		if err != nil {
			return err
		}
		d.out.String(string(b))
	case "bytes":
		b, err := d.text()
		if err != nil {
			return err
		}
		d.out.String(base64.StdEncoding.EncodeToString(b))
	default:
		named, ok := d.types[name]
		if !ok {
			return errAvro
		}
		return d.value(named, depth+1)
	}
	return nil
}

// shortFloat returns the number with the fewest digits that is f as a 32-bit float.
func shortFloat(f float32) float64 {
	var n float64
	if _, err := fmt.Sscan(fmt.Sprint(f), &n); err != nil {
		return float64(f)
	}
	return n
}

// complex writes a value of a complex type.
func (d *avroDecoder) complex(s map[string]any, depth int) error {
	kind, ok := s["type"].(string)
	if !ok {
		return d.value(s["type"], depth+1)
	}
	switch kind {
	case "record":
		return d.record(s, depth)
	case "array":
		d.out.Open('[')
		err := d.each(func() error { return d.value(s["items"], depth+1) })
		d.out.Close(']')
		return err
	case "map":
		d.out.Open('{')
		err := d.each(func() error {
			name, err := d.text()
			if err != nil {
				return err
			}
			d.out.Key(string(name))
			return d.value(s["values"], depth+1)
		})
		d.out.Close('}')
		return err
	case "enum":
		i, err := d.long()
		symbols, _ := s["symbols"].([]any)
		if err != nil || i < 0 || i >= int64(len(symbols)) {
			return errAvro
		}
		name, _ := symbols[i].(string)
		d.out.String(name)
		return nil
	case "fixed":
		size, _ := s["size"].(float64)
		b, err := d.take(int64(size))
		if err == nil {
			d.out.String(base64.StdEncoding.EncodeToString(b))
		}
		return err
	}
	return d.primitive(kind, depth)
}

func (d *avroDecoder) record(s map[string]any, depth int) error {
	fields, _ := s["fields"].([]any)
	d.out.Open('{')
	for _, e := range fields {
		field, _ := e.(map[string]any)
		name, ok := field["name"].(string)
		if !ok {
			return errAvro
		}
		d.out.Key(name)
		if err := d.value(field["type"], depth+1); err != nil {
			return err
		}
	}
	d.out.Close('}')
	return nil
}

// each calls f for each item of an array or a map, which are in blocks.
func (d *avroDecoder) each(f func() error) error {
	for {
		n, err := d.long()
		if err != nil {
			return err
		}
		if n < 0 { // the size in bytes follows
			if n == math.MinInt64 {
				return errAvro
			}
			n = -n
			if _, err := d.long(); err != nil {
				return err
			}
		}
		if n == 0 {
			return nil
		}
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
	}
}
