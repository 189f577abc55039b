module github.com/bloom-runtime/bloom/tools/scaling

go 1.26.0
