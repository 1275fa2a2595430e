# scripts/report needs the Python classes of pprof's protobuf messages. protoc makes them from the
# profile.proto of Debian's package of pprof.
PPROF_PROTO := /usr/share/gocode/src/github.com/google/pprof/proto/profile.proto
PPROF_MESSAGES := $(BASE)/report/profile_pb2.py

$(PPROF_MESSAGES): tools/report.mk
	@echo "  PROTO $@"
	@mkdir -p $(@D)
	@protoc --proto_path=$(dir $(PPROF_PROTO)) --python_out=$(@D) $(PPROF_PROTO)
host-tests: $(PPROF_MESSAGES)
