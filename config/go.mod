module waybill.dev/config

go 1.26.8
