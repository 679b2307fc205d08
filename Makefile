# Every target is one line; what it does stands in scripts/.
.PHONY: run test quick break mutants bench pgo lint console release
run:     ; @scripts/build.sh && exec bin/modelgate demo
test:    ; @scripts/test.sh
quick:   ; @scripts/test.sh quick
bench:   ; @scripts/build.sh && exec bin/modelgate bench --json bench.json
pgo:     ; @scripts/pgo.sh
break:   ; @go run ./tools/faults $(ARGS)
mutants: ; @go run ./tools/mutants $(ARGS)
lint:    ; @scripts/lint.sh
console: ; @echo "make console: this version of modelgate has no web console." >&2; exit 1
release: ; @scripts/release.sh
