%% The cases of the experiments as an Erlang program would have them: its processes.
%%
%%     guest create process COUNT                   makes and ends COUNT units, one after the other, in ten batches
%%     guest ring process RING WARM_NS TIMED_NS     a token goes round RING units by messages
%%     guest idle process COUNT                     keeps COUNT units that wait, until its standard input ends
%%     guest most process LIMIT                     makes units that wait until one is refused, LIMIT at most
%%     guest past process COUNT                     makes units that wait once its input has ended; what refused one
%%     guest pool process DEGREE KIND MS/MS/…       runs computations, DEGREE at a time: KIND is cpu or io
%%
%% It answers as the programs in C do (guests/c/guest.h): one line, `done NAME=NUMBER …` or `error WORDS`. `idle` and
%% `past` say `ready made=NUMBER` first. Started by `erl -noshell -run guest main -extra CASE UNIT …`.
-module(guest).
-export([main/0]).

-define(BATCHES, 10).

main() ->
    Code =
        try
            run(init:get_plain_arguments()),
            0
        catch
            throw:{words, Words} -> say("error ~s", [Words]), 1;
            _:Reason -> say("error ~w", [Reason]), 1
        end,
    halt(Code).

run(["create", "process", Count]) ->
    create(list_to_integer(Count));
run(["ring", "process", Size, Warm, Timed]) ->
    ring(list_to_integer(Size), list_to_integer(Warm), list_to_integer(Timed));
run(["idle", "process", Count]) ->
    idle(list_to_integer(Count));
run(["most", "process", Limit]) ->
    most(list_to_integer(Limit));
run(["past", "process", Count]) ->
    past(list_to_integer(Count));
run(["pool", "process", Degree, Kind, Lengths]) ->
    pool(list_to_integer(Degree), Kind, [number(Text) || Text <- string:split(Lengths, "/", all)]);
run([Case, "process" | _]) ->
    throw({words, "there is no case " ++ Case ++ " with so many arguments"});
run([_, Unit | _]) ->
    throw({words, "there is no unit " ++ Unit});
run(_) ->
    throw({words, "it takes a case, a unit and more"}).

number(Text) ->
    case string:to_float(Text) of
        {error, _} -> list_to_integer(Text);
        {Value, _} -> Value
    end.

now_ns() ->
    erlang:monotonic_time(nanosecond).

say(Format, Values) ->
    io:format(Format ++ "~n", Values).

done(Figures) ->
    say("done~s", [[io_lib:format(" ~s=~b", [Name, Number]) || {Name, Number} <- Figures]]).

%% --- create ---

create(Count) ->
    Each = Count div ?BATCHES,
    Batch = fun(Number, Before) ->
        make(Each),
        After = now_ns(),
        {{io_lib:format("batch_~b_ns", [Number]), After - Before}, After}
    end,
    {Figures, _} = lists:mapfoldl(Batch, now_ns(), lists:seq(1, ?BATCHES)),
    done([{"made", Each * ?BATCHES} | Figures]).

make(0) ->
    ok;
make(Left) ->
    {_, Monitor} = spawn_monitor(fun() -> ok end),
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    end,
    make(Left - 1).

%% --- ring: this process has the clock, and a lap is a token that comes back ---

ring(Size, WarmNs, TimedNs) ->
    %% The last is made first: each is told whom it hands on to.
    Make = fun(_, Following) -> spawn_link(fun() -> hand_on(Following) end) end,
    Second = lists:foldl(Make, self(), lists:seq(2, Size)),
    Count = warm(Second, 1, now_ns(), WarmNs),
    Begun = now_ns(),
    Laps = timed(Second, Count, 0, Begun, TimedNs),
    Wall = now_ns() - Begun,
    Second ! over,
    receive
        over -> ok
    end,
    done([{"wall_ns", Wall}, {"hops", Laps * Size}]).

hand_on(Following) ->
    receive
        token ->
            Following ! token,
            hand_on(Following);
        over ->
            Following ! over
    end.

laps(_, 0) ->
    ok;
laps(Second, Left) ->
    Second ! token,
    receive
        token -> ok
    end,
    laps(Second, Left - 1).

%% Twice as many laps as before until they have lasted for the warm-up; then so many again and again, timed.
warm(Second, Count, Begun, WarmNs) ->
    case now_ns() - Begun < WarmNs of
        true ->
            laps(Second, Count),
            warm(Second, Count * 2, Begun, WarmNs);
        false ->
            Count
    end.

timed(Second, Count, Laps, Begun, TimedNs) ->
    case now_ns() - Begun < TimedNs of
        true ->
            laps(Second, Count),
            timed(Second, Count, Laps + Count, Begun, TimedNs);
        false ->
            Laps
    end.

%% --- units that wait ---

start(0, _, All) ->
    All;
start(Left, Body, All) ->
    try spawn_monitor(Body) of
        {Unit, _} -> start(Left - 1, Body, [Unit | All])
    catch
        error:system_limit -> All
    end.

keep(Count, Ready) ->
    Self = self(),
    Wait = fun() ->
        Self ! here,
        receive
            go -> ok
        end
    end,
    All = start(Count, Wait, []),
    lists:foreach(fun(_) -> receive here -> ok end end, All),
    Ready(length(All)),
    lists:foreach(fun(Unit) -> Unit ! go end, All),
    lists:foreach(fun(_) -> receive {'DOWN', _, process, _, _} -> ok end end, All).

idle(Count) ->
    keep(Count, fun(Made) ->
        erlang:garbage_collect(),
        say("ready made=~b", [Made]),
        until_end(),
        done([{"made", Made}])
    end).

until_end() ->
    case io:get_line("") of
        eof -> ok;
        {error, _} -> ok;
        _ -> until_end()
    end.

most(Limit) ->
    keep(Limit, fun(Made) ->
        Refused =
            case Made < Limit of
                true -> 1;
                false -> 0
            end,
        done([{"made", Made}, {"refused", Refused}])
    end).

%% --- past: units that wait, where the runtime makes no more than it was told ---

past(Count) ->
    say("ready made=0", []),
    until_end(),
    Begun = now_ns(),
    keep(Count, fun(Made) ->
        Took = now_ns() - Begun,
        Refused =
            case Made < Count of
                true ->
                    io:format(standard_error, "error:system_limit~n", []),
                    1;
                false ->
                    0
            end,
        self() ! {figures, [{"made", Made}, {"begun", Made}, {"refused", Refused}, {"took_ns", Took}]}
    end),
    receive
        {figures, Figures} -> ok
    end,
    {_, Monitor} = spawn_monitor(fun() -> ok end),
    receive
        {'DOWN', Monitor, process, _, _} -> done(Figures ++ [{"again", 1}])
    end.

%% --- pool: a bounded set of computations ---

%% Burns CPU time of its own. Nothing tells that of a process, so it is as many steps as take so long alone.
burn(0, Value) ->
    Value;
burn(Steps, Value) ->
    burn(Steps - 1, (Value * 1664525 + Steps) band 16#ffffffff).

%% The most of a few tries: whatever comes between makes it less.
steps_of_millisecond() ->
    Steps = 500000,
    Try = fun(_) ->
        Begun = now_ns(),
        burn(Steps, 1),
        Steps * 1.0e6 / max(1, now_ns() - Begun)
    end,
    lists:max(lists:map(Try, lists:seq(1, 8))).

work("cpu", Milliseconds, Steps) ->
    burn(round(Milliseconds * Steps), 1);
work("io", Milliseconds, _) ->
    timer:sleep(round(Milliseconds)).

pool(Degree, Kind, Lengths) ->
    Steps =
        case Kind of
            "cpu" -> steps_of_millisecond();
            "io" -> 0
        end,
    Self = self(),
    Count = length(Lengths),
    {First, Later} = lists:split(min(Degree, Count), lists:zip(lists:seq(1, Count), Lengths)),
    Begun = now_ns(),
    Start = fun({Index, Milliseconds}) ->
        spawn_link(fun() ->
            work(Kind, Milliseconds, Steps),
            Self ! {ended, Index, now_ns() - Begun}
        end)
    end,
    lists:foreach(Start, First),
    Ends = lists:sort(ends(Count, Later, Start, [])),
    Turnarounds = [{io_lib:format("turnaround_~b_ns", [Index]), End} || {Index, End} <- Ends],
    done([{"elapsed_ns", lists:max([End || {_, End} <- Ends])} | Turnarounds]).

ends(0, _, _, Ends) ->
    Ends;
ends(Left, Later, Start, Ends) ->
    receive
        {ended, Index, End} ->
            Others =
                case Later of
                    [Following | More] ->
                        Start(Following),
                        More;
                    [] ->
                        []
                end,
            ends(Left - 1, Others, Start, [{Index, End} | Ends])
    end.
