-- What wrk sends and how it takes the answers. bench/wrk.py starts it with a file that says which requests, and how a
-- received message is recognised in an answer.

local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long ns; } bench_time; int clock_gettime(int, bench_time *);")

local threads = {}
local spec, texts = nil, {}
local handles, taken = {}, nil
local began, turn = 0, 0

-- Globals, because `done` asks the thread for them.
messages, ran_out_us = 0, 0

local function now_us()
   local time = ffi.new("bench_time")
   ffi.C.clock_gettime(1, time)
   return tonumber(time.s) * 1e6 + tonumber(time.ns) / 1e3
end

-- wrk itself goes on until its time is over; what counts is the time until there was nothing left to do.
local function run_out()
   if ran_out_us == 0 then
      ran_out_us = now_us() - began
      wrk.thread:stop()
   end
end

local function text_of(request)
   return wrk.format(request.method, request.path, request.headers, request.body)
end

local function settle(handle)
   local ack = spec.requests.ack
   local body = ack.body and ack.body:format(handle[1], handle[2])
   return wrk.format(ack.method, ack.path:format(handle[1]), ack.headers, body)
end

local function each_handle(body, found)
   local count = 0
   for first, second in body:gmatch(spec.handle) do
      found(first, second)
      count = count + 1
   end
   return count
end

local jobs = {}

function jobs.same()
   local request = spec.requests.same
   wrk.method, wrk.path, wrk.body = request.method, request.path, request.body
   for name, value in pairs(request.headers) do wrk.headers[name] = value end
end

function jobs.receive()
   jobs.same()
   taken = io.open(spec.handles, "w")
   local function write(first, second) taken:write(first, " ", second or "", "\n") end
   function response(status, headers, body)
      local count = each_handle(body, write)
      messages = messages + count
      if count == 0 and status == 200 then run_out() end
   end
end

function jobs.ack()
   local file = io.open(spec.handles)
   for line in file and file:lines() or function() end do
      local first, second = line:match("(%S+) (%S*)")
      table.insert(handles, { first, second })
   end
   function request()
      -- Where nothing was received there is nothing to ack. wrk must have a request all the same.
      if #handles == 0 then
         run_out()
         return wrk.format("GET", "/")
      end
      turn = turn + 1
      if turn >= #handles then run_out() end
      return settle(handles[math.min(turn, #handles)])
   end
end

-- Send, receive, ack, in turn over all connections. Where nothing is held to be acked, the cycle begins again.
function jobs.cycle()
   texts.send, texts.receive = text_of(spec.requests.send), text_of(spec.requests.receive)
   local function hold(first, second) table.insert(handles, { first, second }) end
   function request()
      turn = turn % 3 + 1
      if turn == 2 then return texts.receive end
      if turn == 3 and #handles > 0 then
         messages = messages + 1
         return settle(table.remove(handles))
      end
      turn = 1
      return texts.send
   end
   function response(status, headers, body)
      each_handle(body, hold)
   end
end

function setup(thread)
   table.insert(threads, thread)
end

function init(arguments)
   spec = dofile(arguments[1])
   jobs[spec.job]()
   began = now_us()
end

function done(summary, latency, requests)
   local errors = summary.errors
   local thread = threads[1]
   io.write(("bench %d %d %d %d %d %d\n"):format(
      summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
      thread:get("messages"), thread:get("ran_out_us")))
end
