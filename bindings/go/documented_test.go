package dlock_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// The packages that users see, by their folders; metrics is a module of its own.
var packages = []string{".", "dlocktest", "dlockmetrics"}

func parse(t *testing.T, folder string, tests bool) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no files, %v", folder, err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") != tests {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// Every exported name with whether a comment stands above it.
func exported(files []*ast.File) map[string]bool {
	names := map[string]bool{}
	note := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		if !name.IsExported() {
			return
		}
		for _, doc := range docs {
			if strings.TrimSpace(doc.Text()) != "" {
				names[name.Name] = true
				return
			}
		}
		names[name.Name] = names[name.Name] || false
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if !hidden(d) {
					note(d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						note(s.Name, s.Doc, d.Doc)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							note(name, s.Doc)
						}
					}
				}
			}
		}
	}
	return names
}

// Methods that a type has for the sake of an interface of others, and those of types nobody sees
// but through one; what Mutex and the others inherit of lock is seen.
func hidden(d *ast.FuncDecl) bool {
	if d.Name.Name == "String" || d.Name.Name == "Is" {
		return true
	}
	if d.Recv == nil {
		return false
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	name, ok := of.(*ast.Ident)
	return ok && !name.IsExported() && name.Name != "lock"
}

// The words of the bodies of all examples.
func shown(files []*ast.File) map[string]bool {
	words := map[string]bool{}
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") {
				ast.Inspect(f.Body, func(n ast.Node) bool {
					if name, ok := n.(*ast.Ident); ok {
						words[name.Name] = true
					}
					return true
				})
				words[strings.TrimPrefix(f.Name.Name, "Example")] = true
			}
		}
	}
	return words
}

func TestEveryExportedNameHasADocCommentAndIsInAnExample(t *testing.T) {
	for _, folder := range packages {
		examples, count := shown(parse(t, folder, true)), 0
		var missing []string
		for name, documented := range exported(parse(t, folder, false)) {
			count++
			if !documented {
				missing = append(missing, name+" has no comment")
			}
			if !examples[name] {
				missing = append(missing, name+" is in no example")
			}
		}
		sort.Strings(missing)
		if len(missing) > 0 || count == 0 {
			t.Errorf("%s: of %d names: %s", folder, count, strings.Join(missing, ", "))
		}
	}
}

func TestTheReadmesTenLinesAreTheExample(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listing, found := strings.Cut(string(text), "```go\n")
	listing, _, ended := strings.Cut(listing, "```")
	example, err := os.ReadFile("example_test.go")
	if err != nil || !found || !ended {
		t.Fatal("no listing of Go in the README", err)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for _, line := range strings.Split(strings.TrimSpace(listing), "\n") {
		line = squeeze(line)
		if strings.Contains(line, "os.Getenv") || line == "}" {
			continue // the example's service is memory
		}
		if !strings.Contains(squeeze(string(example)), line) {
			t.Errorf("not in an example: %s", line)
		}
	}
}
