module guest

go 1.18
