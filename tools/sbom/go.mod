module github.com/bloom-runtime/bloom/tools/sbom

go 1.26.0
