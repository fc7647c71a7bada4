-- +goose Up
-- Dispatchers read what cancelled jobs have left: what was handed over and has had no attempt yet.
CREATE INDEX jobs_cancelled ON jobs (id) WHERE cancelled;
CREATE INDEX job_deliveries_by_job ON job_deliveries (job_id, delivery_id);
