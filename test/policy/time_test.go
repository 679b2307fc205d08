package policy_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// minBound is the shortest time after which a test may decide that something
// failed. A loaded machine stops a process for seconds.
const minBound = 10 * time.Second

// maxPause is the longest time that a test may wait before it looks again for
// what it waits for.
const maxPause = 100 * time.Millisecond

// shortTimes are functions of tests that decide by a short time outside a bubble
// of testing/synctest, each with its reason.
var shortTimes = map[string]string{
	"test/conformance/backup_test.go TestMigrationsOutliveKills":                                                           "kills a process at growing ages until one ends before; the test finds less if the first is killed late",
	"internal/dataplane/early_comments_test.go TestCommentsBeforeTheFirstEventAreHeldWhileAnotherAttemptCanFollow":         "the provider pauses on purpose, for longer than comments are held back otherwise",
	"internal/dataplane/early_comments_test.go TestSoftDenialAfterCommentsIsACompletion":                                   "as the test before",
	"internal/dataplane/early_comments_test.go TestCommentsBeforeTheFirstEventAreHeldWhileAGuardrailCanDeny":               "as the test before",
	"internal/dataplane/early_comments_test.go TestCommentsOfTheLastBranchOfAHedgeReachTheClientBeforeTheFirstEvent":       "the provider pauses on purpose, for longer than comments are held back otherwise",
	"internal/dataplane/early_comments_test.go TestCommentsOfTheLastBranchOfNestedHedgesReachTheClientBeforeTheFirstEvent": "as the test before",
	"internal/dataplane/early_head_test.go TestEarlyHeadersDoNotEndAnUpload":                                               "the client pauses so that its pieces are read alone; the test finds less without",
	"internal/dataplane/guards_test.go respond":                                                                            "the provider pauses so that its pieces arrive alone; a test that needs that only finds less without",
	"internal/dataplane/guards_test.go writeResponses":                                                                     "as ServeHTTP",
	"internal/dataplane/silent_stream_test.go TestHeadersOfASilentStreamWaitForAnotherStatus":                              "the provider pauses on purpose, for longer than headers wait otherwise",
	"internal/dataplane/tools/session_test.go TestLeavingCancelsTheCall":                                                   "a promise of 100 ms, with ten times as much time; the server would never see it otherwise",
	"internal/dataplane/tools/peer/reply_test.go TestClientLeavingEndsTheCallAtTheServer":                                  "takes the best of five: a promise of 100 ms that waiting for a message would break each time",
	"internal/dataplane/stall_timer_test.go TestResponseWhoseProviderPausesIsNotEnded":                                     "the provider pauses on purpose, for longer than a limit that must not end the response",
	"internal/records/logstore/postgres_test.go TestABatchWhoseCommitWasNotAnsweredIsKeptOnce":                             "cuts a connection at ever later moments; the test holds whatever it hits",
	"internal/testing/pipelinetest/routes.go Handle":                                                                       "runs in the bubbles of other files",
	"internal/controlplane/signin/cost_test.go TestCostOfASignIn":                                                          "measures CPU time, of which a sign-in takes a thirtieth of the limit",
	"internal/identity/saml/attacks_test.go checkCosts":                                                                    "takes the best of three: a promise of 50 ms that reading a large document breaks each time",
	"internal/limits/redisquota/redisquota_test.go TestReservationThatNobodyWaitsForIsNotMade":                             "lets a deadline pass while Redis is stopped, whose clock cannot be faked",
	"internal/server/away_test.go TestAChangeCountsAtOnceHereAndSoonElsewhere":                                             "takes the best of up to twenty: a promise of one second that polling would break each time",
	"test/conformance/nodes_test.go TestChangesReachEveryNodeAtOnce":                                                       "takes the best of five series: a promise that polling would break each time",
	"internal/server/limits_test.go TestLimitsAreReadExplainedAndRecorded":                                                 "begins after the end of an hour that is near, as the counters of the hour begin again then",
	"internal/server/run_test.go TestAStuckClientIsRecordedBeforeTheEnd":                                                   "waits until nothing moves for a second: that is what a stuck client is",
	"internal/testing/storetest/relay.go wait":                                                                             "delays traffic on purpose",
	"internal/records/telemetry/telemetry_test.go TestACollectorThatIsAwayRefusesOrIsSlowCostsNoTime":                      "closes with a deadline that is meant to pass",
	"test/conformance/modes_test.go after":                                                                                 "the provider is slow on purpose: what latency measures, and what a hedge waits for",
	"test/security/signin_test.go TestSignInsDoNotUseTheGatewayUp":                                                         "measures processor time, not elapsed time",
	"test/security/slow_test.go slowly":                                                                                    "sends at the pace of an attacker",
}

// Tests wait for progress, with one generous bound. Where the product's own
// durations matter, the clock is that of testing/synctest: a file that imports
// it may use any duration. The same holds for packages of helpers such as gatewaytest.
func TestNoTestDecidesByAShortTime(t *testing.T) {
	found := map[string][]string{}
	folders := map[string]map[string][]byte{}
	for name, data := range mustTexts(t) {
		helper := strings.HasPrefix(name, "internal/") && strings.HasSuffix(path.Dir(name), "test") && strings.HasSuffix(name, ".go")
		if helper || strings.HasSuffix(name, "_test.go") {
			dir := path.Dir(name)
			if folders[dir] == nil {
				folders[dir] = map[string][]byte{}
			}
			folders[dir][name] = data
		}
	}
	for _, files := range folders {
		maps.Copy(found, mustShortTimes(t, files))
	}
	var problems []string
	for function, breaches := range found {
		if shortTimes[function] == "" {
			problems = append(problems, breaches...)
		}
	}
	for function := range shortTimes {
		if len(found[function]) == 0 {
			problems = append(problems, function+" decides by no short time any more; take it out of shortTimes")
		}
	}
	slices.Sort(problems)
	report(t, problems)
}

// mustShortTimes returns the breaches of the test files of one folder, by
// "file function".
func mustShortTimes(t *testing.T, files map[string][]byte) map[string][]string {
	t.Helper()
	set := token.NewFileSet()
	c := clockCheck{set: set, constants: map[string]ast.Expr{}, found: map[string][]string{}}
	var parsed []*ast.File
	for name, data := range files {
		file, err := parser.ParseFile(set, name, data, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
		c.learn(file)
	}
	for _, file := range parsed {
		if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` }) {
			c.check(file)
		}
	}
	return c.found
}

// clockCheck looks for short times in the files of one folder.
type clockCheck struct {
	set       *token.FileSet
	constants map[string]ast.Expr // of the folder's tests, by name
	found     map[string][]string // breaches by "file function"
	function  string              // that is being checked

	// expectsDeadline says that the function checks for context.DeadlineExceeded:
	// its deadline is meant to pass.
	expectsDeadline bool
}

// learn collects the constants of a file.
func (c *clockCheck) learn(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
			for i, name := range spec.Names {
				c.constants[name.Name] = spec.Values[i]
			}
		}
		return true
	})
}

func (c *clockCheck) check(file *ast.File) {
	name := c.set.Position(file.Pos()).Filename
	for _, decl := range file.Decls {
		c.function, c.expectsDeadline = name, mentions(decl, "DeadlineExceeded")
		if f, ok := decl.(*ast.FuncDecl); ok {
			c.function = name + " " + f.Name.Name
			if isGivenTest(f.Type) {
				c.checkReceives(f.Body)
			}
		}
		pauses := map[ast.Node]bool{} // calls of time.After after which a test goes on
		bounds := map[ast.Node]bool{} // cases of a select that fail the test
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CommClause:
				if fails(n.Body) || c.isLong(n.Comm) {
					bounds[n.Comm] = true
				}
			case *ast.ForStmt:
				if cond, ok := n.Cond.(*ast.BinaryExpr); ok && cond.Op == token.LSS {
					c.checkBound(cond.Y, "a loop's time")
				}
			case *ast.ExprStmt:
				if receive, ok := n.X.(*ast.UnaryExpr); ok && receive.Op == token.ARROW && !bounds[n] {
					pauses[receive.X] = true
				}
			case *ast.CallExpr:
				c.checkCall(n, pauses[n])
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Timeout" {
					c.checkBound(n.Value, "Timeout")
				}
			case *ast.BinaryExpr:
				switch n.Op {
				case token.GTR, token.GEQ:
					c.checkBound(n.Y, "elapsed time")
				case token.LSS, token.LEQ:
					c.checkBound(n.X, "elapsed time")
				}
			}
			return true
		})
	}
}

// isGivenTest reports whether a function has the test as a parameter.
func isGivenTest(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		e := p.Type
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && x.Name == "testing"
	})
}

// checkReceives reports receives by the goroutine of a test that have no bound: a value
// that does not come would cost the time limit of the package. Functions that are called
// by others, such as handlers, wait for the test.
func (c *clockCheck) checkReceives(body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return isGivenTest(n.Type)
		case *ast.CommClause:
			for _, s := range n.Body {
				c.checkReceives(&ast.BlockStmt{List: []ast.Stmt{s}})
			}
			return false
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && !isClock(n.X) {
				c.report(n, "a receive without a bound, see internal/testing/waittest")
			}
		}
		return true
	})
}

// isClock reports whether a channel is that of time.After, a timer or a ticker.
func isClock(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		s, ok := e.Fun.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "After"
	case *ast.SelectorExpr:
		return e.Sel.Name == "C"
	}
	return false
}

// isLong reports whether the statement waits for time.After(d) with a d of at
// least minBound.
func (c *clockCheck) isLong(n ast.Stmt) bool {
	long := false
	if n != nil {
		ast.Inspect(n, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 {
				d, ok := c.duration(call.Args[0], 0)
				long = long || ok && d >= minBound
			}
			return true
		})
	}
	return long
}

// fails reports whether one of the statements fails the test.
func fails(body []ast.Stmt) bool {
	return slices.ContainsFunc(body, func(s ast.Stmt) bool {
		return mentions(s, "Fatal") || mentions(s, "Fatalf") || mentions(s, "Error") || mentions(s, "Errorf")
	})
}

// mentions reports whether a selector below n has the name.
func mentions(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		found = found || ok && s.Sel.Name == name
		return !found
	})
	return found
}

// checkCall checks one call; pause says that it is a statement <-time.After(d).
func (c *clockCheck) checkCall(call *ast.CallExpr, pause bool) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	receiver := ""
	if x, ok := selector.X.(*ast.Ident); ok {
		receiver = x.Name
	}
	switch name := receiver + "." + selector.Sel.Name; {
	case name == "time.Sleep":
		c.report(call, "time.Sleep")
	case name == "time.After" && pause:
		if d, ok := c.duration(call.Args[0], 0); !ok || d > 0 && d-maxPause > 0 {
			c.report(call, "a pause that may be longer than %v", maxPause)
		}
	case name == "time.After", name == "time.NewTimer":
		c.checkBound(call.Args[0], name)
	case name == "context.WithTimeout" && !c.expectsDeadline:
		c.checkBound(call.Args[1], name)
	case strings.HasPrefix(selector.Sel.Name, "Set") && strings.HasSuffix(selector.Sel.Name, "Deadline") && len(call.Args) == 1:
		if at, ok := call.Args[0].(*ast.CallExpr); ok && len(at.Args) == 1 { // time.Now().Add(d)
			c.checkBound(at.Args[0], selector.Sel.Name)
		}
	}
}

// checkBound reports a constant duration above zero that is shorter than minBound.
func (c *clockCheck) checkBound(e ast.Expr, what string) {
	if d, ok := c.duration(e, 0); ok && d > 0 && d < minBound {
		c.report(e, "%s of %v", what, d)
	}
}

func (c *clockCheck) report(n ast.Node, form string, args ...any) {
	c.found[c.function] = append(c.found[c.function], fmt.Sprintf("%s: %s: wait for progress for a minute at most, or fake the clock with testing/synctest; a reason why that can't be belongs into shortTimes", c.set.Position(n.Pos()), fmt.Sprintf(form, args...)))
}

// units are the durations of package time.
var units = map[string]time.Duration{"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// duration evaluates a constant expression in which a unit of package time, or a
// constant that holds one, takes part.
func (c *clockCheck) duration(e ast.Expr, depth int) (time.Duration, bool) {
	if depth > 10 {
		return 0, false
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.duration(e.X, depth+1)
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return units[e.Sel.Name], ok && x.Name == "time" && units[e.Sel.Name] > 0
	case *ast.Ident:
		value, ok := c.constants[e.Name]
		if !ok {
			return 0, false
		}
		return c.duration(value, depth+1)
	case *ast.BinaryExpr:
		x, xok := c.duration(e.X, depth+1)
		y, yok := c.duration(e.Y, depth+1)
		n, nok := number(e.X)
		m, mok := number(e.Y)
		switch {
		case e.Op == token.MUL && nok && yok:
			return time.Duration(n * float64(y)), true
		case e.Op == token.MUL && mok && xok:
			return time.Duration(m * float64(x)), true
		case e.Op == token.QUO && mok && xok:
			return time.Duration(float64(x) / m), true
		case e.Op == token.ADD && xok && yok:
			return x + y, true
		case e.Op == token.SUB && xok && yok:
			return x - y, true
		}
	}
	return 0, false
}

// number returns the value of a literal.
func number(e ast.Expr) (float64, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(literal.Value, "_", ""), 64)
	return n, err == nil
}

func TestTimePolicyNoticesEveryShortTime(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       bool
	}{
		{"sleep", "time.Sleep(time.Minute)", true},
		{"long pause", "<-time.After(time.Second)", true},
		{"pause of unknown length", "<-time.After(d)", true},
		{"pause", "<-time.After(5 * time.Millisecond)", false},
		{"select that fails soon", "select { case <-time.After(50 * time.Millisecond): t.Fatal() }", true},
		{"select that fails late", "select { case <-time.After(bound): t.Fatal() }", false},
		{"select that goes on", "select { case <-time.After(50 * time.Millisecond): }", false},
		{"short context", "context.WithTimeout(ctx, 2 * time.Second)", true},
		{"long context", "context.WithTimeout(ctx, bound)", false},
		{"context that is meant to end", "context.WithTimeout(ctx, time.Second); errors.Is(err, context.DeadlineExceeded)", false},
		{"deadline of a connection", "c.SetReadDeadline(time.Now().Add(time.Second))", true},
		{"client", "_ = http.Client{Timeout: 5 * time.Second}", true},
		{"elapsed time above", "if took > 2 * time.Second { t.Error() }", true},
		{"elapsed time below", "if took < 2 * time.Second { t.Error() }", false},
		{"elapsed time far above", "if took > 3 * bound / 2 { t.Error() }", false},
		{"loop", "for time.Since(began) < 5 * time.Second {}", true},
		{"receive", "got := <-answers", true},
		{"receive in a subtest", "t.Run(name, func(t *testing.T) { <-answers })", true},
		{"receive in a case", "select { case <-time.After(bound): <-ended }", true},
		{"receive in a select", "select { case <-answers: case <-time.After(bound): t.Fatal() }", false},
		{"receive in a handler", "serve(func() { <-release })", false},
		{"tick", "<-tick.C", false},
	} {
		file := "package x\nconst bound = time.Minute\nfunc TestX(t *testing.T) { " + tt.body + " }\n"
		if got := len(mustShortTimes(t, map[string][]byte{"x_test.go": []byte(file)})) > 0; got != tt.want {
			t.Errorf("%s: noticed %t, want %t", tt.name, got, tt.want)
		}
	}
}
