//! What is wrong with a chart as it is drawn: every figure of every stored run, of a history, and of several runs in
//! one, on a wide page and on a narrow one.
//!
//! The places are read from the drawing and not from what draws it: the axes from their labelled ticks, the marks from
//! their centres, and both are held against the figures. Fonts are not known here; a text is taken to be as wide as
//! those of the page are on average.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use roxmltree::{Document, Node};
use threadgauge_results::published::cited;
use threadgauge_results::{Change, Course, Figure, HistoryPoint, Origin, Point, Results, Scale};

use super::axis::NARROW;
use super::quantity::Bounds;
use super::{Drawing, Panel, arranged, called, draw};
use crate::by_kind::ByKind;

/// How far off a mark may be: places are rounded, and those of ticks too.
const PIXEL: f64 = 1.0;
/// The height of a capital letter, and of what hangs below the line.
const TEXT: (f64, f64) = (10.0, 3.0);

/// What is wrong, by rule.
type Faults = Vec<(&'static str, String)>;

#[test]
fn every_chart_of_every_stored_run_is_sound() {
    let mut files = results_under(&Path::new(env!("CARGO_MANIFEST_DIR")).join(RUNS));
    files.sort();
    assert!(files.len() > 20, "{files:?}");
    let found: Vec<(String, Faults)> = std::thread::scope(|scope| {
        let readers: Vec<_> = (files.chunks(files.len().div_ceil(2)))
            .map(|files| scope.spawn(|| files.iter().flat_map(|file| of_run(file)).collect::<Vec<_>>()))
            .collect();
        let found = readers.into_iter().flat_map(|reader| reader.join().unwrap());
        found.collect()
    });
    assert!(found.len() > 100, "{}", found.len());
    assert_sound(found);
}

/// Where the stored runs are, from the crate.
const RUNS: &str = "../../runs";

fn assert_sound(found: Vec<(String, Faults)>) {
    let mut by_rule: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (chart, faults) in found {
        for (rule, what) in faults {
            by_rule.entry(rule).or_default().push(format!("{chart}: {what}"));
        }
    }
    let list: Vec<String> = by_rule
        .iter()
        .map(|(rule, faults)| {
            let some: Vec<&str> = faults.iter().take(12).map(String::as_str).collect();
            format!("{rule}: {} faults\n  {}", faults.len(), some.join("\n  "))
        })
        .collect();
    assert!(list.is_empty(), "{}", list.join("\n"));
}

#[test]
fn every_chart_of_a_history_is_sound() {
    let runs = 24;
    let course = |unit: &str, level: f64, begins: &[usize], gap: usize| {
        let step = |run: usize| begins.iter().filter(|begin| **begin <= run).count() as f64;
        let median = |run: usize| level * (1.0 + 0.1 * step(run) + 0.01 * (run % 3) as f64);
        let point = |run| HistoryPoint {
            run,
            median: median(run),
            ci95: Some([median(run) * 0.98, median(run) * 1.02]),
        };
        let change = |begin: &usize| Change {
            run: *begin,
            before: median(begin - 1),
            after: median(*begin),
            ratio: 1.1,
            p: 0.01,
            verdict: "slower",
        };
        Course {
            case: "create/unit=thread,method=pthread".to_owned(),
            metric: "ns_per_unit".to_owned(),
            unit: unit.to_owned(),
            points: (0..runs).filter(|run| *run != gap).map(point).collect(),
            changes: begins.iter().map(change).collect(),
        }
    };
    for course in [
        course("ns", 12_345.0, &[], runs),
        course("ns", 12_345.0, &[12], 3),
        course("ns", 999.0, &[4, 9, 17], runs),
        course("ratio", 0.7, &[21], 0),
    ] {
        let faults = faults(&crate::html::history::chart(&course));
        assert!(faults.is_empty(), "{course:?}: {faults:?}");
    }
}

/// Of machines of two sizes and of one: with lines that some of the runs have alone, and with more places in one.
#[test]
fn every_chart_with_a_line_a_run_is_sound() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join(RUNS);
    let mut found: Vec<(String, Faults)> = Vec::new();
    for (names, folders) in [
        (
            ["kernel 6.1, 2 CPUs", "kernel 6.6, 16 CPUs", "kernel 6.12, 2 CPUs"],
            [
                "2026-11-24-standard",
                "2026-11-27-contention-servers-16",
                "golden/server-designs",
            ],
        ),
        (
            ["kernel 6.1", "kernel 6.6", "kernel 6.12"],
            ["2026-11-24-standard", "2026-11-23-quick", "golden/undisturbed"],
        ),
    ] {
        let runs = folders.map(|folder| results(&runs.join(folder).join("results.json")));
        let charts = crate::merged::charts(&names, &runs.each_ref());
        assert!(charts.len() > 20, "{folders:?}: {}", charts.len());
        found.push((
            folders.join(", "),
            titles(charts.iter().map(|(_, figure)| figure)),
        ));
        found.extend(
            charts
                .iter()
                .map(|(_, figure)| (figure.title.clone(), faults(figure))),
        );
    }
    assert_sound(found);
}

fn results_under(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.file_name() {
            Some(name) if name == "results.json" => vec![path],
            _ if path.is_dir() => results_under(&path),
            _ => Vec::new(),
        })
        .collect()
}

fn results(file: &Path) -> Results {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Every chart of a run, by its name, with its faults.
fn of_run(file: &Path) -> Vec<(String, Faults)> {
    let results = results(file);
    let run = file.parent().and_then(Path::file_name).unwrap().to_string_lossy();
    let of_experiments = (results.experiments.iter())
        .flat_map(|e| e.figures.iter().map(|figure| (e.id.clone(), figure.clone())));
    let of_run = ByKind::of(&results).and_then(|by_kind| by_kind.chart());
    let all: Vec<(String, Figure)> = of_experiments
        .chain(of_run.map(|figure| ("run".to_owned(), figure)))
        .collect();
    let mut of_all = alike(all.iter().map(|(_, figure)| figure));
    of_all.extend(titles(all.iter().map(|(_, figure)| figure)));
    let each = (all.iter()).map(|(of, figure)| (format!("{run} {of} {}", figure.id), faults(figure)));
    each.chain([(run.to_string(), of_all)]).collect()
}

/// All that is wrong with a figure.
fn faults(figure: &Figure) -> Faults {
    let drawing = draw(figure, "f");
    let mut faults = Faults::new();
    for label in [&figure.x, &figure.y] {
        if !says_its_unit(&label.label, label.scale) {
            faults.push(("unit", format!("{:?} names none", label.label)));
        }
    }
    let arranged = arranged(figure);
    for panel in &drawing.panels {
        for (size, drawn) in [("wide", &panel.wide), ("narrow", &panel.narrow)] {
            let svg = &drawn.svg;
            let document = Document::parse(svg).unwrap_or_else(|why| panic!("{why}: {svg}"));
            let mut picture = Picture {
                figure: &arranged,
                shown: &panel.shown,
                root: document.root_element(),
                faults: Faults::new(),
            };
            picture.judge();
            picture.names(&drawn.is_named);
            let found = picture.faults.into_iter();
            faults.extend(found.map(|(rule, what)| (rule, format!("{size}: {what}"))));
        }
        same(&arranged, &panel.shown, &drawing, &mut faults);
        colours(&arranged, panel, &mut faults);
    }
    faults
}

/// Whether a label says in what its quantity is counted: a unit after a comma, a thing counted, or one thing over
/// another.
fn says_its_unit(label: &str, scale: Scale) -> bool {
    const UNITS: [&str; 12] = [
        "%",
        "ns",
        "µs",
        "ms",
        "s",
        "KiB",
        "MiB",
        "1/s",
        "elapsed time",
        "pthread = 1",
        "255 units = 1",
        "or reads in flight",
    ];
    const COUNTS: [&str; 32] = [
        "batches",
        "ids",
        "computations",
        "connections",
        "customers",
        "threads",
        "units",
        "CPUs",
        "calls",
        "steps",
        "lines",
        "messages",
        "answers",
        "requests",
        "deliveries",
        "operations",
        "switches",
        "wake-ups",
        "moves",
        "slice",
        "second",
        "looks",
        "share",
        "times",
        "rate",
        "%",
        "GiB/s",
        "idle",
        "use",
        "programs",
        "runs",
        "turnaround",
    ];
    let unit = label.rsplit_once(", ").map_or("", |(_, unit)| unit);
    let counts = label.split([' ', ':', ',']).any(|word| COUNTS.contains(&word));
    scale == Scale::Category || UNITS.contains(&unit) || counts || label.contains(" / ")
}

/// How a series looks, as its swatch says: its colour, its mark, and its line where it has one.
fn look(swatch: &str) -> [String; 3] {
    let document = Document::parse(swatch).unwrap();
    let root = document.root_element();
    let of = |class: &str, attribute: &str| {
        let has = |node: &Node<'_, '_>| {
            node.attribute("class")
                .is_some_and(|all| all.split(' ').next() == Some(class))
        };
        let found = root.descendants().find(has);
        let part = |node: Node<'_, '_>| {
            format!(
                "{} {}",
                node.attribute("class").unwrap(),
                node.attribute(attribute).unwrap_or_default()
            )
        };
        found.map(part).unwrap_or_default()
    };
    let colour = root.attribute("class").unwrap().replace("swatch ", "");
    [colour, of("m", "d"), of("l", "stroke-dasharray")]
}

/// Two series of a chart look different, and a unit has its colour.
fn colours(figure: &Figure, panel: &Panel, faults: &mut Faults) {
    const OF_UNITS: [(&str, &str); 5] = [
        ("thread", "s1"),
        ("process", "s2"),
        ("reactor", "s4"),
        ("coroutine", "s5"),
        ("coroutines", "s5"),
    ];
    let mut seen: Vec<([String; 3], &str)> = Vec::new();
    for (i, swatch) in panel.shown.iter().zip(&panel.swatches) {
        let (name, look) = (figure.series[*i].name.as_str(), look(swatch));
        let first = name.split([' ', ',', ':']).next().unwrap();
        let of_unit = OF_UNITS.iter().find(|(unit, _)| *unit == first);
        if of_unit.is_some_and(|(_, colour)| look[0] != *colour) {
            faults.push(("colour", format!("{name:?} has {}", look[0])));
        }
        if let Some((_, other)) = seen.iter().find(|(other, _)| *other == look) {
            faults.push(("look", format!("{name:?} looks like {other:?}")));
        }
        seen.push((look, name));
    }
}

/// A name looks the same in all charts of a run, drawn with a line or not, and where it is that of a row.
fn alike<'a>(figures: impl Iterator<Item = &'a Figure>) -> Faults {
    let mut looks: BTreeMap<(String, String), (String, [String; 2])> = BTreeMap::new();
    let mut faults = Faults::new();
    for figure in figures {
        for panel in draw(figure, "f").panels {
            let series = panel.shown.iter().zip(&panel.swatches).map(|(i, swatch)| {
                let series = &figure.series[*i];
                let [colour, mark, _] = look(swatch);
                (series.name.clone(), series.origin, [colour, mark])
            });
            for (name, origin, now) in series.chain(rows(&panel.wide.svg)) {
                let key = (name.clone(), format!("{origin:?}"));
                let (of, then) = looks
                    .entry(key)
                    .or_insert_with(|| (figure.id.clone(), now.clone()));
                let has_no_mark = now[1].is_empty() || then[1].is_empty();
                if then[0] != now[0] || (then[1] != now[1] && !has_no_mark) {
                    faults.push(("alike", format!("{name:?} of {} is not as in {of}", figure.id)));
                }
            }
        }
    }
    faults
}

/// The rows of dots that have a look of their own: their names, colours and marks.
fn rows(svg: &str) -> Vec<(String, Origin, [String; 2])> {
    let document = Document::parse(svg).unwrap();
    let all = document.descendants().filter_map(|node| {
        let colour = node.attribute("class")?.strip_suffix(" row")?;
        let name = node.prev_sibling_element()?.first_element_child()?.text()?;
        let mark = node.first_element_child()?.attribute("d")?;
        Some((
            name.to_owned(),
            Origin::Measured,
            [colour.to_owned(), format!("m {mark}")],
        ))
    });
    all.collect()
}

/// No two charts of a run have one title.
fn titles<'a>(figures: impl Iterator<Item = &'a Figure>) -> Faults {
    let mut seen = BTreeSet::new();
    let again = figures.filter(|figure| !seen.insert(&figure.title));
    again
        .map(|figure| ("title", format!("another chart has that of {}", figure.id)))
        .collect()
}

/// Series that are nowhere a pixel apart and of which that is not said.
fn same(figure: &Figure, shown: &[usize], drawing: &Drawing, faults: &mut Faults) {
    if figure.x.scale == Scale::Category {
        return;
    }
    let points = || shown.iter().flat_map(|i| &figure.series[*i].points);
    let place = |y: f64| if figure.y.scale == Scale::Log { y.ln() } else { y };
    let all: Vec<f64> = points()
        .map(|point| place(point.y))
        .filter(|y| y.is_finite())
        .collect();
    let [low, high] = [f64::min, f64::max].map(|of| all.iter().copied().reduce(of).unwrap_or(0.0));
    // Less than a pixel of the tallest picture, whatever room its axis leaves.
    let near = (high - low) / 320.0;
    let lies_on = |a: &[Point], b: &[Point]| {
        a.len() == b.len()
            && (a.iter().zip(b)).all(|(a, b)| a.x == b.x && (place(a.y) - place(b.y)).abs() <= near * 0.9)
    };
    for (n, i) in shown.iter().enumerate() {
        for j in &shown[n + 1..] {
            let (a, b) = (&figure.series[*i], &figure.series[*j]);
            let says = |note: &String| note.contains(&a.name) && note.contains(&b.name);
            if lies_on(&a.points, &b.points) && !drawing.same.iter().any(says) {
                faults.push(("same", format!("{:?} lies on {:?}", a.name, b.name)));
            }
        }
    }
}

/// A labelled tick.
struct Tick {
    at: f64,
    value: f64,
}

struct Picture<'a> {
    figure: &'a Figure,
    shown: &'a [usize],
    root: Node<'a, 'a>,
    faults: Faults,
}

impl<'a> Picture<'a> {
    fn fault(&mut self, rule: &'static str, what: String) {
        self.faults.push((rule, what));
    }

    fn judge(&mut self) {
        let size = self.root.attribute("viewBox").unwrap();
        let size: Vec<f64> = size.split(' ').map(|n| n.parse().unwrap()).collect();
        self.texts(size[2], size[3]);
        let is_dots = self.figure.x.scale == Scale::Category;
        let (across, up) = self.ticks(is_dots);
        let value = if is_dots { &across } else { &up };
        self.axis(
            value,
            self.figure.y.scale,
            &self.figure.y.label,
            if is_dots { "width" } else { "height" },
        );
        self.room(value);
        if !is_dots {
            self.room_across(&across);
            self.axis(&across, self.figure.x.scale, &self.figure.x.label, "width");
        }
        self.marks(is_dots, &across, &up);
        self.lines();
        let title = self.root.children().find(|child| child.has_tag_name("desc"));
        let answer = title.and_then(|desc| desc.text()).unwrap_or_default();
        if self.root.attribute("role") != Some("img") || !answer.chars().any(|c| c.is_ascii_digit()) {
            self.fault("text", format!("it does not say what it shows: {answer:?}"));
        }
    }

    fn by_class(&self, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> + use<'a> {
        let is_it = move |node: &Node<'_, '_>| {
            let classes = node.attribute("class").unwrap_or_default();
            classes.split(' ').any(|c| c == class)
        };
        self.root.descendants().filter(is_it)
    }

    /// No two texts touch, each is within the picture, and none calls a source by a number.
    fn texts(&mut self, width: f64, height: f64) {
        let says: Vec<&str> = self.root.descendants().filter_map(|node| node.text()).collect();
        for text in says {
            if cited(text) != text {
                self.fault("source", format!("{text:?} calls it by a number"));
            }
        }
        let texts: Vec<(&str, [f64; 4])> = (self.root.descendants())
            .filter(|node| node.has_tag_name("text"))
            .map(|node| {
                let number = |name| -> f64 { node.attribute(name).unwrap().parse().unwrap() };
                let text = node.text().unwrap_or_default();
                let (x, y, wide) = (number("x"), number("y"), text.chars().count() as f64 * NARROW);
                let left = match node.attribute("text-anchor") {
                    Some("middle") => x - wide / 2.0,
                    Some("end") => x - wide,
                    _ => x,
                };
                (text, [left, y - TEXT.0, left + wide, y + TEXT.1])
            })
            .collect();
        for (i, (text, a)) in texts.iter().enumerate() {
            if a[0] < -PIXEL || a[1] < -PIXEL || a[2] > width + PIXEL || a[3] > height + PIXEL {
                self.fault("label", format!("{text:?} leaves the picture"));
            }
            if text.ends_with('…') {
                self.fault("label", format!("{text:?} is cut"));
            }
            for (other, b) in &texts[i + 1..] {
                if a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3] {
                    self.fault("label", format!("{text:?} lies on {other:?}"));
                }
            }
        }
    }

    /// Each series has its name once, in the picture, where neither mark nor line is, or in the legend.
    fn names(&mut self, is_named: &[bool]) {
        let named: Vec<usize> = self
            .shown
            .iter()
            .zip(is_named)
            .filter(|(_, is)| **is)
            .map(|(i, _)| *i)
            .collect();
        let marks: Vec<[f64; 2]> = self
            .by_class("m")
            .flat_map(|mark| edges(mark.attribute("transform").unwrap()))
            .collect();
        // Points along each line, near each other.
        let front = self
            .by_class("l")
            .filter(|line| !line.attribute("class").is_some_and(|class| class.contains('b')));
        let along: Vec<[f64; 2]> = front
            .flat_map(|line| {
                let points: Vec<[f64; 2]> = numbers(line.attribute("d").unwrap()).collect();
                let between = |pair: &[[f64; 2]]| {
                    let (a, b) = (pair[0], pair[1]);
                    (0..=200).map(move |step| [0, 1].map(|n| a[n] + (b[n] - a[n]) * f64::from(step) / 200.0))
                };
                points.windows(2).flat_map(between).collect::<Vec<_>>()
            })
            .collect();
        let names: Vec<Node<'_, '_>> = self.by_class("name").collect();
        for i in &named {
            let called = called(&self.figure.series[*i]);
            let lines = |name: &Node<'a, 'a>| -> Vec<Node<'a, 'a>> {
                name.children()
                    .filter(|child| child.has_tag_name("text"))
                    .collect()
            };
            let says = |name: &Node<'a, 'a>| {
                lines(name)
                    .iter()
                    .filter_map(Node::text)
                    .collect::<Vec<_>>()
                    .join(" ")
                    .replace("- ", "-")
            };
            let [name] = names
                .iter()
                .filter(|name| says(name) == called)
                .collect::<Vec<_>>()[..]
            else {
                self.fault("name", format!("{called:?} is not named once"));
                continue;
            };
            for line in lines(name) {
                let number = |name| -> f64 { line.attribute(name).unwrap().parse().unwrap() };
                let (x, y) = (number("x"), number("y"));
                let right = x + line.text().unwrap().chars().count() as f64 * NARROW;
                let is_on =
                    |at: &&[f64; 2]| (x..right).contains(&at[0]) && (y - TEXT.0..y + TEXT.1).contains(&at[1]);
                if let Some(at) = marks.iter().chain(&along).find(is_on) {
                    self.fault("name", format!("{called:?} lies on what is drawn at {at:?}"));
                }
            }
        }
        if names.len() != named.len() {
            self.fault("name", format!("{} names of {} series", names.len(), named.len()));
        }
    }

    /// The labelled ticks of the axis across, and of the one that goes up.
    fn ticks(&self, is_dots: bool) -> (Vec<Tick>, Vec<Tick>) {
        let (mut across, mut up) = (Vec::new(), Vec::new());
        for node in self.by_class("k") {
            let number = |name| -> f64 { node.attribute(name).unwrap().parse().unwrap() };
            let value = number_of(node.text().unwrap());
            match (node.attribute("text-anchor"), value) {
                (Some("middle"), Some(value)) => across.push(Tick {
                    at: number("x"),
                    value,
                }),
                (Some("end"), Some(value)) if !is_dots => up.push(Tick {
                    at: number("y") - 4.5,
                    value,
                }),
                _ => {}
            }
        }
        (across, up)
    }

    /// Not nearly all of many marks are in a tenth of the axis that has their values.
    fn room(&mut self, ticks: &[Tick]) {
        let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else {
            return;
        };
        let points = self.shown.iter().flat_map(|i| &self.figure.series[*i].points);
        let ends = points.flat_map(|point| [point.y].into_iter().chain(point.ci95.into_iter().flatten()));
        let places: Vec<f64> = ends.map(|end| place(ticks, self.figure.y.scale, end)).collect();
        self.in_a_tenth("of values", &places, (last.at - first.at).abs() / 10.0, 15);
    }

    /// Not nearly all of many places are in a tenth of the axis across.
    fn room_across(&mut self, ticks: &[Tick]) {
        let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else {
            return;
        };
        let points = self.shown.iter().flat_map(|i| &self.figure.series[*i].points);
        let mut places: Vec<f64> = points
            .map(|point| place(ticks, self.figure.x.scale, point.x))
            .collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        self.in_a_tenth("across", &places, (last.at - first.at).abs() / 10.0, 5);
    }

    /// Of so many places at least, not nearly all are so near each other.
    fn in_a_tenth(&mut self, which: &str, places: &[f64], tenth: f64, least: usize) {
        let within = |from: &f64| {
            places
                .iter()
                .filter(|at| (*from..=from + tenth).contains(at))
                .count()
        };
        let most = places.iter().map(within).max().unwrap_or(0);
        if places.len() >= least && most * 10 >= places.len() * 9 {
            self.fault(
                "room",
                format!("in a tenth of the axis {which}: {most} of {}", places.len()),
            );
        }
    }

    /// The ticks are evenly placed by their values, and none is where the quantity cannot be.
    fn axis(&mut self, ticks: &[Tick], scale: Scale, label: &str, along: &str) {
        if ticks.len() < 2 {
            self.fault(
                "tick",
                format!("{} labelled ticks along its {along}", ticks.len()),
            );
            return;
        }
        for tick in ticks {
            let expected = place(ticks, scale, tick.value);
            if (tick.at - expected).abs() > PIXEL {
                self.fault(
                    "tick",
                    format!("{} stands at {} and not at {expected:.1}", tick.value, tick.at),
                );
            }
            if !Bounds::of(label).hold(tick.value) {
                self.fault("bounds", format!("{label:?} reaches {}", tick.value));
            }
        }
        // The end of the axis, and not its last tick alone.
        if scale == Scale::Linear {
            let frames = self.by_class("a").chain(self.by_class("g"));
            let ends = frames.flat_map(|line| numbers(line.attribute("d").unwrap()));
            let places: Vec<f64> = ends.map(|[x, y]| if along == "width" { x } else { y }).collect();
            let (a, b) = (&ticks[0], ticks.last().unwrap());
            let value = |at: f64| a.value + (at - a.at) * (b.value - a.value) / (b.at - a.at);
            let is_dots = self.figure.x.scale == Scale::Category;
            // Rules of a dot plot go from the edge of the picture.
            let inside = places.iter().filter(|at| !is_dots || **at > 0.0);
            let ends: Vec<f64> = if along == "width" {
                inside.copied().collect()
            } else {
                self.foot().into_iter().collect()
            };
            let bounds = Bounds::of(label);
            let pixel = (value(PIXEL) - value(0.0)).abs();
            let is_beyond = |v: &f64| (bounds.clamp(*v) - v).abs() > pixel;
            if let Some(beyond) = ends.into_iter().map(value).find(is_beyond) {
                self.fault("bounds", format!("{label:?} ends at {beyond:.3}"));
            }
        }
    }

    /// The foot of a chart of lines: the lowest line that is level.
    fn foot(&self) -> Option<f64> {
        let lines = self
            .by_class("a")
            .map(|line| numbers(line.attribute("d").unwrap()).collect::<Vec<_>>());
        let level = lines.filter(|ends| ends.len() == 2 && ends[0][1] == ends[1][1]);
        level.map(|ends| ends[0][1]).reduce(f64::max)
    }

    /// Each mark is at its value, and each point has its mark or lies on a line.
    fn marks(&mut self, is_dots: bool, across: &[Tick], up: &[Tick]) {
        if across.len() < 2 || (!is_dots && up.len() < 2) {
            return;
        }
        let mut drawn: BTreeMap<String, Vec<[f64; 2]>> = BTreeMap::new();
        for mark in self.by_class("m") {
            let at = centre(mark.attribute("transform").unwrap());
            let title = mark
                .parent()
                .and_then(|group| group.children().find(|child| child.has_tag_name("title")));
            let title = title.and_then(|title| title.text()).unwrap_or_default();
            drawn.entry(title.to_owned()).or_default().push(at);
        }
        let [x_scale, y_scale] = [self.figure.x.scale, self.figure.y.scale];
        let centres: Vec<[f64; 2]> = drawn.values().flatten().copied().collect();
        let mut faults = Vec::new();
        for series in self.shown.iter().map(|i| &self.figure.series[*i]) {
            if series.origin == Origin::Ideal && series.points.len() >= 3 && !is_dots {
                continue;
            }
            for point in series
                .points
                .iter()
                .filter(|point| super::can_stand(self.figure, point))
            {
                let (at, found) = if is_dots {
                    let x = place(across, y_scale, point.y);
                    (
                        format!("{x:.1}"),
                        centres.iter().any(|c| (c[0] - x).abs() <= PIXEL),
                    )
                } else {
                    let (x, y) = (place(across, x_scale, point.x), place(up, y_scale, point.y));
                    let near = |c: &[f64; 2]| (c[0] - x).abs() <= PIXEL && (c[1] - y).abs() <= PIXEL;
                    (format!("{x:.1}, {y:.1}"), centres.iter().any(near))
                };
                if !found {
                    faults.push(format!(
                        "{:?} has no mark at {at} ({}, {})",
                        series.name, point.x, point.y
                    ));
                }
            }
        }
        for what in faults {
            self.fault("mark", what);
        }
    }

    /// A line has three points or more; one of theory is dashed, and no other.
    fn lines(&mut self) {
        let lines: Vec<Node<'_, '_>> = self.by_class("l").collect();
        for line in lines {
            let points = numbers(line.attribute("d").unwrap()).count();
            if points < 3 {
                self.fault("line", format!("one of {points} points"));
            }
        }
        let ideal: BTreeSet<usize> = (self.shown.iter().copied())
            .filter(|i| {
                self.figure.series[*i].origin == Origin::Ideal && self.figure.series[*i].points.len() >= 3
            })
            .collect();
        let is_front =
            |line: &Node<'_, '_>| line.attribute("class").is_some_and(|class| !class.contains('b'));
        let dashed = self
            .by_class("l")
            .filter(is_front)
            .filter(|line| line.has_attribute("stroke-dasharray"));
        let dashed = dashed.count();
        if self.figure.x.scale != Scale::Category && dashed != ideal.len() {
            self.fault(
                "theory",
                format!("{dashed} dashed lines, {} of theory", ideal.len()),
            );
        }
    }
}

/// Where a value belongs, by the first and the last of the ticks.
fn place(ticks: &[Tick], scale: Scale, value: f64) -> f64 {
    let of = |value: f64| if scale == Scale::Log { value.ln() } else { value };
    let (a, b) = (&ticks[0], ticks.last().unwrap());
    a.at + (of(value) - of(a.value)) * (b.at - a.at) / (of(b.value) - of(a.value))
}

/// The number that a tick is labelled with.
fn number_of(text: &str) -> Option<f64> {
    let text: String = text.replace('−', "-").split_whitespace().collect();
    let Some((mantissa, power)) = text
        .split_once("10")
        .filter(|(_, power)| power.chars().any(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹⁻".contains(c)))
    else {
        return text.parse().ok();
    };
    let digit = |c: char| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().position(|s| s == c).map(|d| d.to_string());
    let power: String = power
        .chars()
        .map(|c| digit(c).unwrap_or_else(|| "-".to_owned()))
        .collect();
    let mantissa = match mantissa.trim_end_matches('·') {
        "" => 1.0,
        "-" => -1.0,
        mantissa => mantissa.parse().ok()?,
    };
    Some(mantissa * 10f64.powi(power.parse().ok()?))
}

/// The places in a path of `M` and `L` alone.
fn numbers(d: &str) -> impl Iterator<Item = [f64; 2]> {
    d.split(['M', 'L'])
        .filter(|part| !part.is_empty())
        .filter_map(|part| {
            let (x, y) = part.split_once(' ')?;
            Some([x.parse().ok()?, y.parse().ok()?])
        })
}

/// Where a mark is, and how far it reaches at least to each side.
fn edges(transform: &str) -> [[f64; 2]; 5] {
    let [x, y] = centre(transform);
    let scale = transform
        .split_once("scale(")
        .and_then(|(_, scale)| scale.trim_end_matches(')').parse().ok());
    let half = 3.6 * scale.unwrap_or(1.0);
    [[x, y], [x - half, y], [x + half, y], [x, y - half], [x, y + half]]
}

/// Where a mark is.
fn centre(transform: &str) -> [f64; 2] {
    let (_, rest) = transform.split_once("translate(").unwrap();
    let (at, _) = rest.split_once(')').unwrap();
    let (x, y) = at.split_once(' ').unwrap();
    [x, y].map(|n| n.parse().unwrap())
}
