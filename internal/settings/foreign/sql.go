package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// parseInserts returns the rows that the INSERT statements of an SQL dump add to a table, as
// objects by column. Dumps of SQLite name no columns: they are those of CREATE TABLE.
func parseInserts(text []byte, table string) ([]any, error) {
	var rows []any
	var declared []string
	s := scanner{rest: text}
	for !s.isAtEnd() {
		switch word := strings.ToUpper(s.word()); word {
		case "CREATE":
			if cols, ok := s.createTable(table); ok {
				declared = cols
			}
		case "INSERT":
			added, err := s.insert(table, declared, maxNodes/8-len(rows))
			if err != nil {
				return nil, err
			}
			rows = append(rows, added...)
		case "":
			s.skip()
		}
	}
	return rows, nil
}

// scanner reads tokens of SQL.
type scanner struct{ rest []byte }

func (s *scanner) isAtEnd() bool {
	s.space()
	return len(s.rest) == 0
}

// space skips white space and comments.
func (s *scanner) space() {
	for {
		s.rest = bytes.TrimLeft(s.rest, " \t\r\n")
		switch {
		case bytes.HasPrefix(s.rest, []byte("--")):
			_, s.rest, _ = bytes.Cut(s.rest, []byte("\n"))
		case bytes.HasPrefix(s.rest, []byte("/*")):
			_, s.rest, _ = bytes.Cut(s.rest, []byte("*/"))
		default:
			return
		}
	}
}

// word returns a name or keyword, quoted or not, and empty before anything else.
func (s *scanner) word() string {
	s.space()
	if len(s.rest) > 0 && (s.rest[0] == '"' || s.rest[0] == '`') {
		return s.quoted(s.rest[0])
	}
	n := 0
	for n < len(s.rest) && (s.rest[n] == '_' || s.rest[n] == '.' || '0' <= s.rest[n] && s.rest[n] <= '9' ||
		'a' <= s.rest[n]|32 && s.rest[n]|32 <= 'z') {
		n++
	}
	out := string(s.rest[:n])
	s.rest = s.rest[n:]
	return out
}

// take skips a character if it is next.
func (s *scanner) take(c byte) bool {
	if s.space(); len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// skip skips a quoted text or a character.
func (s *scanner) skip() {
	switch {
	case s.isAtEnd():
	case s.rest[0] == '\'':
		s.quoted('\'')
	default:
		s.rest = s.rest[1:]
	}
}

// quoted reads a text in quotes, which are doubled in it, or escaped as MySQL does.
func (s *scanner) quoted(quote byte) string {
	var out []byte
	i := 1
	for ; i < len(s.rest); i++ {
		c := s.rest[i]
		switch {
		case c == '\\' && quote == '\'' && i+1 < len(s.rest):
			i++
			switch s.rest[i] {
			case 'n':
				out = append(out, '\n')
			case '"', '\'', '\\':
				out = append(out, s.rest[i])
			default:
				out = append(out, c, s.rest[i])
			}
		case c == quote && i+1 < len(s.rest) && s.rest[i+1] == quote:
			out = append(out, c)
			i++
		case c == quote:
			s.rest = s.rest[i+1:]
			return string(out)
		default:
			out = append(out, c)
		}
	}
	s.rest = nil
	return string(out)
}

// name returns a table's name without its schema.
func (s *scanner) name() string {
	n := s.word()
	for s.take('.') {
		n = s.word()
	}
	return n[strings.LastIndex(n, ".")+1:]
}

// createTable reads the columns of a table after CREATE.
func (s *scanner) createTable(table string) (columns []string, ok bool) {
	if !strings.EqualFold(s.word(), "TABLE") {
		return nil, false
	}
	name := s.name()
	if strings.EqualFold(name, "IF") {
		s.word()
		s.word()
		name = s.name()
	}
	if name != table || !s.take('(') {
		return nil, false
	}
	for depth, first := 0, true; depth >= 0 && !s.isAtEnd(); {
		switch {
		case first:
			column := s.word()
			if first = false; column == "" {
				s.skip()
				continue
			}
			columns = append(columns, column)
		case s.take('('):
			depth++
		case s.take(')'):
			depth--
		case s.take(','):
			first = depth == 0
		case s.rest[0] == '"' || s.rest[0] == '`':
			s.quoted(s.rest[0])
		default:
			if s.word() == "" {
				s.skip()
			}
		}
	}
	return columns, true
}

// insert reads the rows after INSERT. Those of other tables are skipped.
func (s *scanner) insert(table string, columns []string, most int) (rows []any, err error) {
	if !strings.EqualFold(s.word(), "INTO") {
		return nil, nil
	}
	if s.name() != table {
		return nil, nil
	}
	if s.take('(') {
		columns = nil
		for !s.take(')') && !s.isAtEnd() {
			columns = append(columns, s.word())
			if !s.take(',') && len(s.rest) > 0 && s.rest[0] != ')' {
				s.skip()
			}
		}
	}
	if !strings.EqualFold(s.word(), "VALUES") {
		return nil, nil
	}
	for s.take('(') {
		row := map[string]any{}
		for i := 0; !s.take(')') && !s.isAtEnd(); i++ {
			v := s.value()
			if i < len(columns) {
				row[columns[i]] = v
			}
			s.take(',')
		}
		if len(columns) == 0 {
			return nil, fmt.Errorf("the dump names no columns of %s; include CREATE TABLE, or write INSERT with columns", table)
		}
		if len(rows) == most {
			return nil, errNodes
		}
		rows = append(rows, row)
		s.take(',')
	}
	return rows, nil
}

// value reads a literal of a row.
func (s *scanner) value() any {
	s.space()
	if len(s.rest) > 1 && (s.rest[0] == 'E' || s.rest[0] == 'N') && s.rest[1] == '\'' {
		s.rest = s.rest[1:]
	}
	if len(s.rest) > 0 && s.rest[0] == '\'' {
		return s.quoted('\'')
	}
	n := bytes.IndexAny(s.rest, ",)")
	if n < 0 {
		n = len(s.rest)
	}
	text := strings.TrimSpace(string(s.rest[:n]))
	s.rest = s.rest[n:]
	switch strings.ToUpper(text) {
	case "NULL", "":
		return nil
	case "TRUE", "FALSE":
		return strings.EqualFold(text, "true")
	}
	return json.Number(text)
}
