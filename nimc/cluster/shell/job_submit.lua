-- Each stage-out takes one licence of the writers (docs/licence.md).
-- A site that has a job_submit.lua inserts this text before its last 'return'.

-- What a site may change: the licence, and which jobs are stage-outs. One of a job's fields must have
-- one of the words, as 'sbatch --comment=stage-out' does; fields are those of Slurm's job_desc.
local LICENCE = "nimc_writers"
local STAGE_OUT = {
    comment = { "stage-out" },
    partition = {}, -- such as { "transfer" }
}

local site_submit, site_modify = slurm_job_submit, slurm_job_modify

local function is_stage_out(value_of)
    for field, words in pairs(STAGE_OUT) do
        for found in (value_of(field) or ""):gmatch("[^,%s]+") do
            for _, word in ipairs(words) do
                if found == word then
                    return true
                end
            end
        end
    end
    return false
end

-- The licences of a job, all of them kept, with one of ours unless it has one.
local function with_licence(licences)
    local others = {}
    for entry in (licences or ""):gmatch("[^,;]+") do
        local name, count = entry:match("^([^:]*):?(%d*)$")
        if name ~= LICENCE then
            table.insert(others, entry)
        elseif tonumber(count) ~= 0 then -- without a count it is 1
            return licences
        end
    end
    table.insert(others, LICENCE)
    return table.concat(others, ",")
end

function slurm_job_submit(job_desc, partitions, uid)
    local result = site_submit and site_submit(job_desc, partitions, uid) or slurm.SUCCESS
    if is_stage_out(function(field) return job_desc[field] end) then
        job_desc.licenses = with_licence(job_desc.licenses)
    end
    return result
end

function slurm_job_modify(job_desc, job, partitions, uid)
    local result = site_modify and site_modify(job_desc, job, partitions, uid) or slurm.SUCCESS
    if is_stage_out(function(field) return job_desc[field] or job[field] end) then
        local wanted = with_licence(job_desc.licenses or job.licenses)
        if wanted ~= (job_desc.licenses or job.licenses) then
            job_desc.licenses = wanted
        end
    end
    return result
end

return slurm.SUCCESS
