//! Points of an experiment's grid as types: declared once, written as parameters and read back.
//!
//! [`words!`](crate::words!) declares a parameter that is one of several words, [`point!`](crate::point!) a case.
//! Values given with `--set` are checked when they are read back, and refused in one form of words.

use std::ops::{Bound, RangeBounds};

pub use threadgauge_results::{Params, Value};

use crate::worker::CaseError;

/// The type of a parameter.
pub trait Parameter: Sized {
    /// The value as it stands in a case's id.
    fn value(&self) -> Value;

    /// Reads it back; `None` for any other value.
    fn read(value: &Value) -> Option<Self>;

    /// The allowed values, to follow "it must be".
    fn wanted() -> String;
}

impl Parameter for u64 {
    fn value(&self) -> Value {
        Value::Int(*self)
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Int(n) => Some(*n),
            Value::Text(_) => None,
        }
    }

    fn wanted() -> String {
        "a number".to_owned()
    }
}

impl Parameter for bool {
    fn value(&self) -> Value {
        Value::from(if *self { "yes" } else { "no" })
    }

    fn read(value: &Value) -> Option<Self> {
        [true, false].into_iter().find(|b| b.value() == *value)
    }

    fn wanted() -> String {
        "yes or no".to_owned()
    }
}

/// A field of a case: a [`Parameter`], or an optional one, which cases may be without.
///
/// An optional parameter is one of [`OPTIONAL`](threadgauge_results::OPTIONAL): these the rule of picking cases knows.
pub trait Field: Sized {
    /// The parameters with this behind them under its name; without it, where it is none.
    #[must_use]
    fn put(&self, params: Params, name: &str) -> Params;

    /// Reads it back.
    ///
    /// # Errors
    ///
    /// When it is missing and not optional, or not an allowed value.
    fn take(params: &Params, name: &str) -> Result<Self, CaseError>;
}

impl<T: Parameter> Field for T {
    fn put(&self, params: Params, name: &str) -> Params {
        params.with(name, self.value())
    }

    fn take(params: &Params, name: &str) -> Result<Self, CaseError> {
        parameter(params, name)
    }
}

impl<T: Parameter> Field for Option<T> {
    fn put(&self, params: Params, name: &str) -> Params {
        match self {
            Some(value) => value.put(params, name),
            None => params,
        }
    }

    fn take(params: &Params, name: &str) -> Result<Self, CaseError> {
        params.get(name).map(|_| parameter(params, name)).transpose()
    }
}

/// A case of an experiment, or a pattern that picks some of its cases.
pub trait Point: Copy + Into<Params> {
    /// Reads a case back.
    ///
    /// # Errors
    ///
    /// [`CaseError::Failed`], which names the parameter, its value and what it must be.
    fn read(params: &Params) -> Result<Self, CaseError>;

    /// Its parameters.
    fn params(self) -> Params {
        self.into()
    }

    /// Its parameters without these: picks the case whatever their values.
    fn any(self, names: &[&str]) -> Params {
        let params: Params = self.into();
        let kept = params.iter().filter(|(name, _)| !names.contains(name));
        kept.fold(Params::new(), |kept, (name, value)| {
            kept.with(name, value.clone())
        })
    }
}

/// The parameter `name` of a case.
///
/// # Errors
///
/// When it is missing or not an allowed value.
pub fn parameter<T: Parameter>(params: &Params, name: &str) -> Result<T, CaseError> {
    let value = params.get(name).and_then(T::read);
    value.ok_or_else(|| refused(params, name, &T::wanted()))
}

/// The number `name` of a case, if it lies in `range`.
///
/// # Errors
///
/// When it is missing, no number, or outside.
pub fn number(params: &Params, name: &str, range: impl RangeBounds<u64>) -> Result<u64, CaseError> {
    let value = params.int(name).filter(|n| range.contains(n));
    value.ok_or_else(|| {
        let least = match range.start_bound() {
            Bound::Included(n) => *n,
            Bound::Excluded(n) => *n + 1,
            Bound::Unbounded => 0,
        };
        let wanted = match range.end_bound() {
            Bound::Included(most) => format!("a number from {least} to {most}"),
            Bound::Excluded(above) => format!("a number from {least} to below {above}"),
            Bound::Unbounded => format!("a number from {least} on"),
        };
        refused(params, name, &wanted)
    })
}

/// The refusal of a case whose parameter `name` is not what is `wanted`.
#[must_use]
pub fn refused(params: &Params, name: &str, wanted: &str) -> CaseError {
    let given = params
        .get(name)
        .map_or_else(|| "missing".to_owned(), ToString::to_string);
    CaseError::Failed(format!("the parameter {name} is {given}; it must be {wanted}"))
}

/// Declares an enum whose variants are the words of a parameter: `ALL`, `name()` and [`Parameter`].
///
/// ```
/// threadgauge_lab::words! {
///     /// Who does the work.
///     pub enum Unit {
///         /// A POSIX thread.
///         Thread = "thread",
///         /// A child by fork.
///         Process = "process",
///     }
/// }
/// assert_eq!(Unit::ALL.map(Unit::name), ["thread", "process"]);
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$of:meta])* $word:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        $vis enum $name { $($(#[$of])* $word),+ }

        #[allow(dead_code, reason = "not every parameter is looked at in every way")]
        impl $name {
            /// All of them, in the order of their declaration.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$word),+];

            /// The word.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$word => $text),+ }
            }
        }

        impl $crate::point::Parameter for $name {
            fn value(&self) -> $crate::point::Value {
                $crate::point::Value::from(self.name())
            }

            fn read(value: &$crate::point::Value) -> Option<Self> {
                Self::ALL.into_iter().find(|word| $crate::point::Parameter::value(word) == *value)
            }

            fn wanted() -> String {
                format!("one of {}", Self::ALL.map(Self::name).join(", "))
            }
        }
    };
}

/// Declares a case: a struct whose fields are its parameters, in the order of its id. `= range` behind a number bounds
/// it. Each field has a method of its name, which gives the same case with another value of that field. A field of the
/// type `Option` is an optional parameter ([`Field`](crate::point::Field)).
///
/// ```
/// use threadgauge_lab::point::Point as _;
///
/// threadgauge_lab::point! {
///     /// A case.
///     pub struct Case {
///         /// How many.
///         count: u64 = 1..=8192,
///         /// On how many CPUs.
///         cpus: u64 = 1..,
///     }
/// }
/// let case = Case { count: 64, cpus: 2 };
/// assert_eq!(case.params().to_string(), "count=64,cpus=2");
/// assert_eq!(Case::read(&case.params()).unwrap(), case);
/// assert_eq!(case.cpus(1), Case { cpus: 1, ..case });
/// assert_eq!(
///     Case::read(&Case { count: 0, cpus: 2 }.params()).unwrap_err().to_string(),
///     "the parameter count is 0; it must be a number from 1 to 8192"
/// );
/// ```
#[macro_export]
macro_rules! point {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$of:meta])* $field:ident: $type:ty $(= $range:expr)?),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $name { $($(#[$of])* $vis $field: $type),+ }

        #[allow(dead_code, clippy::needless_update, reason = "not every parameter is varied by itself, nor beside others")]
        impl $name {
            $(/// The same with another value of this parameter.
            #[must_use]
            $vis const fn $field(self, $field: $type) -> Self {
                Self { $field, ..self }
            })+
        }

        impl From<$name> for $crate::point::Params {
            fn from(point: $name) -> Self {
                let params = Self::new();
                $(let params = $crate::point::Field::put(&point.$field, params, stringify!($field));)+
                params
            }
        }

        impl $crate::point::Point for $name {
            fn read(params: &$crate::point::Params) -> Result<Self, $crate::worker::CaseError> {
                Ok(Self { $($field: $crate::read_parameter!(params, stringify!($field) $(, $range)?)?),+ })
            }
        }
    };
}

/// One parameter of a [`point!`], with or without a range.
#[doc(hidden)]
#[macro_export]
macro_rules! read_parameter {
    ($params:expr, $name:expr) => {
        $crate::point::Field::take($params, $name)
    };
    ($params:expr, $name:expr, $range:expr) => {
        $crate::point::number($params, $name, $range)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    words! {
        enum Unit { Thread = "thread", Process = "process" }
    }
    point! {
        struct Case { unit: Unit, count: u64 = 1..=10, huge_pages: bool }
    }
    point! {
        struct Optional { unit: Unit, library: Option<Unit>, count: u64 }
    }

    const CASE: Case = Case {
        unit: Unit::Process,
        count: 3,
        huge_pages: true,
    };

    fn refusal(params: &Params) -> String {
        Case::read(params).unwrap_err().to_string()
    }

    #[test]
    fn a_case_is_read_back_as_it_was_written() {
        assert_eq!(CASE.params().to_string(), "unit=process,count=3,huge_pages=yes");
        assert_eq!(Case::read(&CASE.params()).unwrap(), CASE);
        assert_eq!(CASE.any(&["count"]).to_string(), "unit=process,huge_pages=yes");
    }

    #[test]
    fn what_it_cannot_be_is_refused_with_what_it_must_be() {
        let with = |name: &str, value: Value| refusal(&CASE.params().with(name, value));
        assert_eq!(
            with("unit", "fibre".into()),
            "the parameter unit is fibre; it must be one of thread, process"
        );
        assert_eq!(
            with("count", 11.into()),
            "the parameter count is 11; it must be a number from 1 to 10"
        );
        assert_eq!(
            with("huge_pages", 1.into()),
            "the parameter huge_pages is 1; it must be yes or no"
        );
        assert_eq!(
            refusal(&CASE.any(&["unit"])),
            "the parameter unit is missing; it must be one of thread, process"
        );
    }

    #[test]
    fn an_optional_parameter_leaves_no_trace_where_there_is_none() {
        let without = Optional {
            unit: Unit::Thread,
            library: None,
            count: 3,
        };
        let with = without.library(Some(Unit::Process));
        assert_eq!(without.params().to_string(), "unit=thread,count=3");
        assert_eq!(with.params().to_string(), "unit=thread,library=process,count=3");
        for case in [without, with] {
            assert_eq!(Optional::read(&case.params()).unwrap(), case);
        }
        let refused = Optional::read(&with.params().with("library", "fibre")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the parameter library is fibre; it must be one of thread, process"
        );
    }

    #[test]
    fn a_number_is_refused_with_its_bounds() {
        use Bound::{Excluded, Unbounded};
        let params = Params::new().with("n", 3).with("word", "x");
        for (range, wanted) in [
            ((Excluded(3), Excluded(9)), "from 4 to below 9"),
            ((Excluded(7), Unbounded), "from 8 on"),
            ((Unbounded, Excluded(3)), "from 0 to below 3"),
        ] {
            let refused = number(&params, "n", range).unwrap_err().to_string();
            assert_eq!(
                refused,
                format!("the parameter n is 3; it must be a number {wanted}")
            );
        }
        assert_eq!(number(&params, "n", (Excluded(2), Excluded(4))).unwrap(), 3);
        let refused = parameter::<u64>(&params, "word").unwrap_err().to_string();
        assert_eq!(refused, "the parameter word is x; it must be a number");
        assert_eq!(parameter::<u64>(&params, "n").unwrap(), 3);
    }
}
