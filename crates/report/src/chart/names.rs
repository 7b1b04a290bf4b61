//! The names of lines where they end: which of them have room there, and where they stand.

use threadgauge_results::published::cited;
use threadgauge_results::{Origin, Series};

use super::axis::{in_lines, width};
use super::svg::{LINE, Size, Svg};

/// From the end of a line to its name: past its mark.
pub(super) const GAP: f64 = 14.0;
/// How far above or below its line's end a name may stand.
const FAR: f64 = 24.0;
/// Between one name and the next below.
const APART: f64 = 3.0;
/// The most lines of a name.
const MOST_LINES: usize = 2;

/// What a series is called, sources by their names, and whose its figures are where they are not ours.
pub(crate) fn called(series: &Series) -> String {
    let whose = match series.origin {
        Origin::Measured => "",
        Origin::Published => " (published)",
        Origin::Ideal => " (theory)",
    };
    // Of one source alone its name is in the chart's text.
    let name = series.name.strip_prefix("source, ").unwrap_or(&series.name);
    format!("{}{whose}", cited(name))
}

/// The name of a series in lines; none where it would be cut.
pub(super) fn in_short(series: &Series, size: Size) -> Option<Vec<String>> {
    let longest = if size == Size::Wide { 20 } else { 12 };
    let lines = in_lines(&called(series), longest, MOST_LINES);
    let is_cut = lines.iter().any(|line| line.ends_with('…'));
    (!is_cut).then_some(lines)
}

/// A name in the picture.
pub(super) struct Name {
    lines: Vec<String>,
    /// Where its line ends.
    end: (f64, f64),
    /// Where its text begins, and its middle.
    at: (f64, f64),
}

impl Name {
    /// `gap` beside the end of its line, with its middle at `y`.
    pub fn beside(lines: &[String], end: (f64, f64), gap: f64, y: f64) -> Self {
        let (lines, at) = (lines.to_vec(), (end.0 + gap, y));
        Self { lines, end, at }
    }

    /// Left, top, right, and bottom.
    fn extent(&self) -> [f64; 4] {
        let half = self.lines.len() as f64 * LINE / 2.0;
        let (x, y) = self.at;
        [x, y - half, x + widest(&self.lines), y + half]
    }

    /// Draws it, with a line to its end where it does not stand beside it.
    pub fn draw(&self, svg: &mut Svg, class: &str) {
        svg.raw(&format!("<g class=\"name {class}\">"));
        if (self.at.1 - self.end.1).abs() > 3.0 {
            let (from, to) = ((self.end.0 + 5.0, self.end.1), (self.at.0 - 2.0, self.at.1));
            svg.line("r", from, to);
        }
        let first = self.at.1 + 4.5 - (self.lines.len() - 1) as f64 * LINE / 2.0;
        for (i, line) in self.lines.iter().enumerate() {
            svg.text(self.at.0, first + i as f64 * LINE, "start", "v", line);
        }
        svg.raw("</g>");
    }
}

fn widest(lines: &[String]) -> f64 {
    lines.iter().map(|line| width(line)).fold(0.0, f64::max)
}

/// The room that names need, `gap` right of the ends of their lines.
pub(super) fn room<'a>(names: impl Iterator<Item = &'a Vec<String>>, gap: f64) -> f64 {
    names.map(|lines| gap + widest(lines) + 2.0).fold(0.0, f64::max)
}

/// Where names one above the other have their middles, in `[top, bottom]`: each as near to the end of its line as the
/// others let it. The ends are given, and how many lines each name has. None for one that would be too far off.
pub(super) fn spread(ends: &[(f64, usize)], bounds: [f64; 2]) -> Vec<Option<f64>> {
    let mut shown: Vec<usize> = (0..ends.len()).collect();
    shown.sort_by(|a, b| ends[*a].0.total_cmp(&ends[*b].0));
    loop {
        let places = stacked(shown.iter().map(|i| ends[*i]), bounds);
        let off = |n: &usize| (places[*n] - ends[shown[*n]].0).abs();
        let worst = (0..shown.len()).max_by(|a, b| off(a).total_cmp(&off(b)));
        match worst.filter(|n| off(n) > FAR) {
            Some(worst) => {
                shown.remove(worst);
            }
            None => {
                let mut found = vec![None; ends.len()];
                for (i, place) in shown.into_iter().zip(places) {
                    found[i] = Some(place);
                }
                return found;
            }
        }
    }
}

/// The middles of names in the order of their ends, none on another: those that would touch share their distance.
fn stacked(ends: impl Iterator<Item = (f64, usize)>, [top, bottom]: [f64; 2]) -> Vec<f64> {
    /// Names that touch: where the first begins, its height, and the middles of each from there and where it should be.
    struct Stack {
        top: f64,
        height: f64,
        names: Vec<(f64, f64)>,
    }
    let mut stacks: Vec<Stack> = Vec::new();
    let settle = |stack: &mut Stack| {
        let should: f64 = stack.names.iter().map(|(from_top, end)| end - from_top).sum();
        let should = should / stack.names.len() as f64;
        stack.top = should.min(bottom - stack.height).max(top);
    };
    for (end, lines) in ends {
        let height = lines as f64 * LINE + APART;
        let mut last = Stack {
            top: 0.0,
            height,
            names: vec![(height / 2.0, end)],
        };
        settle(&mut last);
        while let Some(before) = stacks.pop_if(|before| before.top + before.height > last.top) {
            let moved = last
                .names
                .into_iter()
                .map(|(from_top, end)| (from_top + before.height, end));
            last.names = before.names.into_iter().chain(moved).collect();
            last.height += before.height;
            settle(&mut last);
        }
        stacks.push(last);
    }
    let middles = stacks.into_iter().flat_map(|stack| {
        stack
            .names
            .into_iter()
            .map(move |(from_top, _)| stack.top + from_top)
    });
    middles.collect()
}

/// What is drawn already, and where no name can stand.
#[derive(Default)]
pub(super) struct Taken {
    boxes: Vec<[f64; 4]>,
    strokes: Vec<[(f64, f64); 2]>,
}

impl Taken {
    /// A mark or an interval, from its left and top to its right and bottom.
    pub fn area(&mut self, area: [f64; 4]) {
        self.boxes.push(area);
    }

    /// A line through these.
    pub fn line(&mut self, points: &[(f64, f64)]) {
        self.strokes
            .extend(points.windows(2).map(|pair| [pair[0], pair[1]]));
    }

    /// A name right of its line's end, or a bit above or below, where nothing is, left of `edge`; it is taken then.
    pub fn name(&mut self, lines: &[String], end: (f64, f64), [top, edge, bottom]: [f64; 3]) -> Option<Name> {
        let tries = [0.0, -12.0, 12.0].map(|off| Name::beside(lines, end, GAP, end.1 + off));
        let mut fitting = tries.into_iter().filter(|name| {
            let area = name.extent();
            area[1] >= top && area[2] <= edge && area[3] <= bottom && self.is_free(area)
        });
        let found = fitting.next()?;
        self.boxes.push(found.extent());
        Some(found)
    }

    fn is_free(&self, [left, top, right, bottom]: [f64; 4]) -> bool {
        let meets =
            |other: &[f64; 4]| left < other[2] && other[0] < right && top < other[3] && other[1] < bottom;
        let holds = |(x, y): (f64, f64)| (left..=right).contains(&x) && (top..=bottom).contains(&y);
        let crosses = |[a, b]: &[(f64, f64); 2]| {
            // A point each two units of it.
            let steps = ((b.0 - a.0).hypot(b.1 - a.1) / 2.0).ceil().max(1.0);
            let along = (0..=steps as usize).map(|step| step as f64 / steps);
            along
                .map(|t| (a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1)))
                .any(holds)
        };
        !self.boxes.iter().any(meets) && !self.strokes.iter().any(crosses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_share_the_distance_from_ends_that_are_near_each_other_and_one_too_far_off_is_left_out() {
        assert_eq!(
            spread(&[(100.0, 1), (40.0, 1)], [0.0, 200.0]),
            [Some(100.0), Some(40.0)]
        );
        assert_eq!(
            spread(&[(100.0, 1), (90.0, 1)], [0.0, 200.0]),
            [Some(104.0), Some(86.0)]
        );
        assert_eq!(spread(&[(198.0, 2)], [0.0, 200.0]), [Some(183.5)]);
        let crowd = spread(&[(50.0, 1); 6], [0.0, 200.0]);
        let places: Vec<f64> = crowd.iter().copied().flatten().collect();
        assert_eq!(places, [32.0, 50.0, 68.0]);
    }

    #[test]
    fn a_name_within_a_chart_stands_where_nothing_is() {
        let name = ["ab".to_owned()];
        let room = [0.0, 100.0, 100.0];
        let at = |taken: &mut Taken| taken.name(&name, (10.0, 50.0), room).map(|name| name.at.1);
        let mut taken = Taken::default();
        taken.line(&[(0.0, 50.0), (10.0, 50.0)]);
        assert_eq!(at(&mut taken), Some(50.0));
        taken.area([20.0, 60.0, 60.0, 70.0]);
        assert_eq!(at(&mut taken), None, "the first is there, and a mark is below");
        let mut taken = Taken::default();
        taken.line(&[(20.0, 53.0), (90.0, 53.0)]);
        assert_eq!(at(&mut taken), Some(38.0));
        assert!(taken.name(&name, (90.0, 50.0), room).is_none(), "beyond the edge");
    }
}
