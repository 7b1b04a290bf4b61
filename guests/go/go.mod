module guest

go 1.21
