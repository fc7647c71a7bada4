module waybill.dev/docs

go 1.26.8
