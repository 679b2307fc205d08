# Every target is one line; the commands are in tools/.
.PHONY: run test quick break mutants bench pgo lint release image
run:     ; @tools/build.sh && exec bin/modelgate demo
test:    ; @tools/test.sh
quick:   ; @tools/test.sh quick
bench:   ; @tools/build.sh && exec bin/modelgate bench --json bench.json
pgo:     ; @tools/pgo.sh
break:   ; @go run ./tools/faults $(ARGS)
mutants: ; @go run ./tools/mutants $(ARGS)
lint:    ; @tools/lint.sh
release: ; @go run ./tools/release $(ARGS)
image:   ; @tools/image.sh $(ARGS)
