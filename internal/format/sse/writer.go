package sse

import (
	"bytes"
	"strings"
)

// AppendData appends an event that has only data: one data field for each line
// of data, and the blank line. CR, LF and CR LF all end a line, so that no data
// can break out of its field; a reader sees each of them as a line feed.
func AppendData(dst, data []byte) []byte {
	crs := bytes.IndexByte(data, '\r') >= 0
	for {
		i := lineEnd(data, crs)
		dst = append(dst, "data: "...)
		if i < 0 {
			dst = append(dst, data...)
			return append(dst, "\n\n"...)
		}
		dst = append(dst, data[:i]...)
		dst = append(dst, '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
}

// lineEnd returns the end of the first line of b, or -1. crs is false if b has
// no CR, which makes the search faster.
func lineEnd(b []byte, crs bool) int {
	if !crs {
		return bytes.IndexByte(b, '\n')
	}
	return bytes.IndexAny(b, "\r\n")
}

// AppendEvent appends an event of type typ, which is left out if empty, like
// [AppendData]. Line ends in typ become spaces.
func AppendEvent(dst []byte, typ string, data []byte) []byte {
	if typ != "" {
		dst = append(dst, "event: "...)
		dst = appendLine(dst, typ)
	}
	return AppendData(dst, data)
}

// AppendComment appends a comment and a blank line, which readers ignore: a
// keep-alive between two events. Line ends in text become spaces.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	dst = appendLine(dst, text)
	return append(dst, '\n')
}

var oneLine = strings.NewReplacer("\r\n", " ", "\r", " ", "\n", " ")

func appendLine(dst []byte, s string) []byte {
	if strings.ContainsAny(s, "\r\n") {
		s = oneLine.Replace(s)
	}
	dst = append(dst, s...)
	return append(dst, '\n')
}
