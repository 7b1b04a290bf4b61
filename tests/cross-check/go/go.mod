module cross-check

go 1.21
