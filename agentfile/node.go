package agentfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The tags of scalars that mean something to us. All others are texts: a date, for one, is what was written.
const (
	tagNull  = "!!null"
	tagBool  = "!!bool"
	tagInt   = "!!int"
	tagFloat = "!!float"
	tagMerge = "!!merge"
)

// A syntaxError is why a file could not be taken apart, and where.
type syntaxError struct {
	line, column int
	err          error
}

func (s *syntaxError) Error() string { return s.err.Error() }

// yamlDocuments takes a YAML file apart.
func yamlDocuments(data []byte) ([]*yaml.Node, error) {
	var documents []*yaml.Node
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return documents, yamlError(err)
		}
		documents = append(documents, n.Content...)
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlError finds the line in an error of the library, which tells it in words only.
func yamlError(err error) error {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	if m == nil {
		return &syntaxError{1, 0, err}
	}
	line, _ := strconv.Atoi(m[1]) // without one it is 0
	return &syntaxError{max(line, 1), 0, errors.New(text[len(m[0]):])}
}

// jsonDocuments takes a JSON file apart, into nodes like those of a YAML file. It is not read as YAML, which knows
// other escapes. The first pass finds what is no JSON: the second, by tokens, would let some of it through.
func jsonDocuments(data []byte) ([]*yaml.Node, error) {
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var whole json.RawMessage
		err := d.Decode(&whole)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, jsonError(data, err)
		}
	}
	p := &jsonParser{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), line: 1, column: 1}
	p.decoder.UseNumber()
	var documents []*yaml.Node
	for {
		n, err := p.value()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, jsonError(data, err)
		}
		documents = append(documents, n)
	}
}

// jsonError says where reading broke off.
func jsonError(data []byte, err error) error {
	at := len(data)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = min(max(int(syntax.Offset)-1, 0), at)
	}
	p := &jsonParser{data: data, line: 1, column: 1}
	p.move(at)
	return &syntaxError{p.line, p.column, fmt.Errorf("not JSON: %w", err)}
}

// A jsonParser makes nodes of the tokens of a decoder. line and column are those of the byte at.
type jsonParser struct {
	data             []byte
	decoder          *json.Decoder
	at, line, column int
}

// move goes on to an offset.
func (p *jsonParser) move(to int) {
	for p.at < to {
		r, size := utf8.DecodeRune(p.data[p.at:])
		p.at += size
		p.column++
		if r == '\n' {
			p.line, p.column = p.line+1, 1
		}
	}
}

// token reads a token, and goes to where it begins.
func (p *jsonParser) token() (json.Token, error) {
	begin := int(p.decoder.InputOffset())
	token, err := p.decoder.Token()
	for begin < len(p.data) && strings.IndexByte(" \t\r\n,:", p.data[begin]) >= 0 {
		begin++
	}
	p.move(begin)
	return token, err
}

// value reads a whole value. At the end of an array or object it gives nil.
func (p *jsonParser) value() (*yaml.Node, error) {
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.line, Column: p.column}
	switch t := token.(type) {
	case nil:
		n.Tag = tagNull
	case bool:
		n.Tag, n.Value = tagBool, strconv.FormatBool(t)
	case json.Number:
		n.Tag, n.Value = tagInt, t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = tagFloat
		}
	case string:
		n.Tag, n.Value = "!!str", t
	case json.Delim:
		switch t {
		case ']', '}':
			return nil, nil
		case '[':
			n.Kind = yaml.SequenceNode
		case '{':
			n.Kind = yaml.MappingNode
		}
		return n, p.content(n)
	}
	return n, nil
}

// content reads what is in an array or object.
func (p *jsonParser) content(n *yaml.Node) error {
	for {
		child, err := p.value()
		if err != nil || child == nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
}
