module modelgate

go 1.26.0
