module github.com/bloom-runtime/bloom/tools/licenses

go 1.26.0
