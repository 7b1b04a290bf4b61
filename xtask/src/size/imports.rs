//! The files of a crate, and which of them imports which.
//!
//! An import is any path to an item of another file of the crate, in a `use` or written out, in macros too. A path
//! through a re-export leads to the file that defines the item. `mod` declarations are none, nor is a re-export of
//! what lies below (`pub use child::Item`), unless the file uses the name itself.
//!
//! Names are looked up as the compiler does, with two simplifications: a `use` in a function counts for its module, and
//! a name that a macro defines belongs to the file where it is looked up.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, ItemUse, Lit, Meta, Stmt, UseTree, Visibility};

use super::source::{self, Path as Written};

/// How many re-exports a path may lead through; beyond it the names lead in a circle.
const MOST_RE_EXPORTS: u32 = 32;

/// A crate's files outside tests.
pub struct Crate {
    /// What its own files may call it, e.g. `threadgauge_lab`.
    name: String,
    /// In the order in which their modules are declared.
    pub files: Vec<File>,
    modules: Vec<Module>,
}

/// A source file.
pub struct File {
    /// From the workspace's root.
    pub path: PathBuf,
    /// Its lines of code.
    pub lines: usize,
}

/// Who imports whom: the two files' places in [`Crate::files`], and the path that first says so.
pub type Imports = BTreeMap<(usize, usize), String>;

/// Module number in [`Crate::modules`].
type Id = usize;

struct Module {
    file: usize,
    parent: Id,
    children: HashMap<String, Id>,
    uses: Vec<Use>,
    /// Names of the items it defines.
    items: HashSet<String>,
    /// What its code says, `use` apart.
    paths: Vec<Written>,
}

/// One path of a `use`.
struct Use {
    path: Written,
    /// `None` for `*`.
    name: Option<String>,
    is_public: bool,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Module(Id),
    /// An item of this file.
    Item(usize),
    /// Another crate, or a name that is none of an item.
    Elsewhere,
}

impl Crate {
    /// Reads the crate in `folder`: from its `lib.rs`, its `main.rs` and its `build.rs`.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut whole = Self {
            name: package_name(folder)?.replace('-', "_"),
            files: Vec::new(),
            modules: Vec::new(),
        };
        for root in ["src/lib.rs", "src/main.rs", "build.rs"] {
            let root = folder.join(root);
            if root.is_file() {
                let id = whole.modules.len();
                whole.read_file(&root, &root.with_file_name(""), id)?;
            }
        }
        Ok(whole)
    }

    /// Reads `path` as a module whose own modules lie in `below`.
    fn read_file(&mut self, path: &Path, below: &Path, parent: Id) -> Result<Id> {
        let text = fs::read_to_string(path).with_context(|| format!("{} is a module", path.display()))?;
        let parsed = source::without_tests(&text).with_context(|| path.display().to_string())?;
        self.files.push(File {
            path: path.to_owned(),
            lines: source::code_lines(&text, &parsed),
        });
        self.read_module(parsed.items, self.files.len() - 1, below, parent)
    }

    fn read_module(&mut self, items: Vec<Item>, file: usize, below: &Path, parent: Id) -> Result<Id> {
        let id = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            children: HashMap::new(),
            uses: Vec::new(),
            items: HashSet::new(),
            paths: Vec::new(),
        });
        for mut item in items {
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let child = self.read_child(module, file, below, id)?;
                    self.modules[id].children.insert(name, child);
                }
                Item::Use(item) => self.modules[id].uses.extend(flatten(&item)),
                _ => {
                    let mut inner = TakeUses(Vec::new());
                    inner.visit_item_mut(&mut item);
                    let module = &mut self.modules[id];
                    module.uses.append(&mut inner.0);
                    module.items.extend(name_of(&item));
                    module.paths.extend(source::paths(item.to_token_stream()));
                }
            }
        }
        Ok(id)
    }

    fn read_child(&mut self, module: ItemMod, file: usize, below: &Path, parent: Id) -> Result<Id> {
        let folder = below.join(module.ident.to_string());
        if let Some((_, items)) = module.content {
            return self.read_module(items, file, &folder, parent);
        }
        let candidates = match module.attrs.iter().find_map(named_path) {
            Some(path) => vec![self.files[file].path.with_file_name(path)],
            None => vec![folder.with_extension("rs"), folder.join("mod.rs")],
        };
        match candidates.iter().find(|path| path.is_file()) {
            Some(path) => self.read_file(path, &folder, parent),
            None => bail!("module {} is in none of {candidates:?}", module.ident),
        }
    }

    /// Which file imports which.
    pub fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (id, module) in self.modules.iter().enumerate() {
            let uses = module.uses.iter().filter_map(|used| {
                let target = self.resolve(id, &used.path, MOST_RE_EXPORTS);
                let is_kept_for_others = used.is_public && self.is_below(target, id);
                match (target, &used.name) {
                    _ if is_kept_for_others => None,
                    (Target::Module(module), None) => Some((self.modules[module].file, &used.path)),
                    (Target::Item(file), _) => Some((file, &used.path)),
                    _ => None,
                }
            });
            let paths =
                module
                    .paths
                    .iter()
                    .filter_map(|path| match self.resolve(id, path, MOST_RE_EXPORTS) {
                        Target::Item(file) => Some((file, path)),
                        Target::Module(_) | Target::Elsewhere => None,
                    });
            for (to, path) in uses.chain(paths).filter(|(to, _)| *to != module.file) {
                imports
                    .entry((module.file, to))
                    .or_insert_with(|| path.join("::"));
            }
        }
        imports
    }

    /// Whether what a path leads to lies below this module.
    fn is_below(&self, target: Target, above: Id) -> bool {
        let of_file = |file| self.modules.iter().position(|module| module.file == file);
        let mut at = match target {
            Target::Module(id) => id,
            Target::Item(file) => of_file(file).expect("every file is a module"),
            Target::Elsewhere => return false,
        };
        while at != above && self.modules[at].parent != at {
            at = self.modules[at].parent;
        }
        at == above
    }

    /// What `path` leads to when it is written in module `from`.
    fn resolve(&self, from: Id, path: &[String], left: u32) -> Target {
        let mut at = match path[0].as_str() {
            "crate" => Target::Module(self.root(from)),
            "self" => Target::Module(from),
            "super" => Target::Module(self.modules[from].parent),
            name if name == self.name => Target::Module(0),
            name => self.member(from, name, left).unwrap_or(Target::Elsewhere),
        };
        for name in &path[1..] {
            let Target::Module(module) = at else { break };
            at = match name.as_str() {
                "self" => at,
                "super" => Target::Module(self.modules[module].parent),
                name => self
                    .member(module, name, left)
                    .unwrap_or(Target::Item(self.modules[module].file)),
            };
        }
        at
    }

    /// What a name is in a module; `None` if neither the module nor what it imports whole has such a name.
    fn member(&self, module: Id, name: &str, left: u32) -> Option<Target> {
        let left = left.checked_sub(1)?;
        let here = &self.modules[module];
        if let Some(child) = here.children.get(name) {
            return Some(Target::Module(*child));
        }
        if here.items.contains(name) {
            return Some(Target::Item(here.file));
        }
        if let Some(used) = here.uses.iter().find(|used| used.name.as_deref() == Some(name)) {
            // `use name;` of another crate is that crate.
            let leads_elsewhere = used.path[..] == [name];
            return Some(if leads_elsewhere {
                Target::Elsewhere
            } else {
                self.resolve(module, &used.path, left)
            });
        }
        let whole = here.uses.iter().filter(|used| used.name.is_none());
        whole
            .filter_map(|used| match self.resolve(module, &used.path, left) {
                Target::Module(imported) => self.member(imported, name, left),
                Target::Item(_) | Target::Elsewhere => None,
            })
            .next()
    }

    fn root(&self, mut module: Id) -> Id {
        while self.modules[module].parent != module {
            module = self.modules[module].parent;
        }
        module
    }
}

/// The circles: groups of files each of which imports, over others or directly, all the others of its group.
pub fn circles(files: usize, imports: &Imports) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..files).map(|file| reached_from(file, imports)).collect();
    let mut circles: Vec<Vec<usize>> = Vec::new();
    for file in 0..files {
        let circle = reached[file]
            .iter()
            .copied()
            .filter(|other| reached[*other].contains(&file));
        let circle: Vec<usize> = circle.collect();
        if circle.first() == Some(&file) {
            circles.push(circle);
        }
    }
    circles
}

fn reached_from(file: usize, imports: &Imports) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![file];
    while let Some(from) = next.pop() {
        let direct = imports.range((from, 0)..(from + 1, 0)).map(|((_, to), _)| *to);
        next.extend(direct.filter(|to| reached.insert(*to)));
    }
    reached
}

fn package_name(folder: &Path) -> Result<String> {
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = "));
    let name = name.with_context(|| format!("{} names its package", manifest.display()))?;
    Ok(name.trim_matches('"').to_owned())
}

/// What `#[path = "…"]` says, if this is one.
fn named_path(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(named) = &attribute.meta else {
        return None;
    };
    match &named.value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(path), ..
        }) if named.path.is_ident("path") => Some(path.value()),
        _ => None,
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Takes the `use` declarations out of functions.
struct TakeUses(Vec<Use>);

impl VisitMut for TakeUses {
    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| {
            let Stmt::Item(Item::Use(item)) = statement else {
                return true;
            };
            self.0.extend(flatten(item));
            false
        });
        visit_mut::visit_block_mut(self, block);
    }
}

/// The single paths of a `use`.
fn flatten(item: &ItemUse) -> Vec<Use> {
    let mut flat = Vec::new();
    let is_public = !matches!(item.vis, Visibility::Inherited);
    branches(&item.tree, &[], is_public, &mut flat);
    flat
}

fn branches(tree: &UseTree, before: &[String], is_public: bool, flat: &mut Vec<Use>) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    let mut push = |path: Written, name: Option<String>| {
        flat.push(Use {
            path,
            name,
            is_public,
        });
    };
    match tree {
        UseTree::Path(part) => branches(&part.tree, &with(&part.ident), is_public, flat),
        UseTree::Group(group) => {
            for tree in &group.items {
                branches(tree, before, is_public, flat);
            }
        }
        UseTree::Name(last) if last.ident == "self" => push(before.to_vec(), before.last().cloned()),
        UseTree::Name(last) => push(with(&last.ident), Some(last.ident.to_string())),
        UseTree::Rename(last) if last.ident == "self" => push(before.to_vec(), Some(last.rename.to_string())),
        UseTree::Rename(last) => push(with(&last.ident), Some(last.rename.to_string())),
        UseTree::Glob(_) => push(before.to_vec(), None),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The imports of a crate of these files, as `from -> to`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let (whole, imports) = read(files);
        let name = |file: usize| {
            whole.files[file]
                .path
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        imports
            .keys()
            .map(|(from, to)| format!("{} -> {}", name(*from), name(*to)))
            .collect()
    }

    /// A crate of these files below `src`.
    pub fn read(files: &[(&str, &str)]) -> (Crate, Imports) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("Cargo.toml", "[package]\nname = \"our-own\"\n");
        for (path, text) in files {
            write(&format!("src/{path}"), text);
        }
        let whole = Crate::read(folder.path()).unwrap();
        let imports = whole.imports();
        (whole, imports)
    }

    #[test]
    fn a_use_and_a_path_written_out_are_imports() {
        for text in [
            "use crate::b::B;",
            "use crate::{c, b::{self, B}};",
            "use super::b::B;",
            "use our_own::b::B as Other;",
            "fn f() { use crate::b::B; }",
            "fn f(b: super::b::B) {}",
            "fn f() { vec![crate::b::B::new()] }",
            "use super::b; fn f() { b::B::new() }",
            "use crate::b as other; fn f() { other::B }",
            "use crate::b::*;",
            "use std::fmt; use crate::b; const A: b::B = b::B;",
            "mod inner { use super::super::b::B; }",
        ] {
            let files = [
                ("lib.rs", "mod a; mod b; mod c;"),
                ("a.rs", text),
                ("b.rs", "pub struct B;"),
                ("c.rs", ""),
            ];
            assert_eq!(imports(&files), ["a -> b"], "{text}");
        }
    }

    #[test]
    fn declarations_tests_own_names_and_other_crates_are_none() {
        let text = "
            use std::b::B; use other::b::C;
            #[cfg(test)] mod tests { use crate::b::B; }
            #[cfg(test)] mod missing;
            enum Kind { One } use self::Kind::One;
            fn f(b: u8) { Self::b(b.b) }";
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", text),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(imports(&files), [""; 0]);
    }

    #[test]
    fn a_path_through_a_re_export_leads_to_the_file_that_defines_the_item() {
        for re_export in ["pub use b::B;", "pub use self::b::*;", "pub use b::{B as B};"] {
            let lib = format!("mod a; mod b; {re_export}");
            let files = [
                ("lib.rs", lib.as_str()),
                ("a.rs", "use crate::B;"),
                ("b.rs", "pub struct B;"),
            ];
            assert_eq!(imports(&files), ["a -> b"], "{re_export}");
        }
    }

    #[test]
    fn a_re_export_that_is_used_in_its_file_is_an_import() {
        let files = |lib| [("lib.rs", lib), ("b.rs", "pub struct B;")];
        assert_eq!(imports(&files("mod b; pub use b::B;")), [""; 0]);
        assert_eq!(
            imports(&files("mod b; pub use b::B; fn f() -> B { B }")),
            ["lib -> b"]
        );
        assert_eq!(imports(&files("mod b; use b::B;")), ["lib -> b"]);
    }

    #[test]
    fn a_re_export_of_what_lies_elsewhere_is_an_import() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub use crate::b::B;"),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(imports(&files), ["a -> b"]);
    }

    #[test]
    fn a_module_lies_where_its_attribute_says() {
        let files = [
            ("lib.rs", "#[path = \"elsewhere/other.rs\"] mod a; use a::A;"),
            ("elsewhere/other.rs", "pub struct A;"),
        ];
        assert_eq!(imports(&files), ["lib -> other"]);
    }

    #[test]
    fn modules_lie_in_files_folders_and_inside_others() {
        let files = [
            ("lib.rs", "mod a; mod inner { pub mod c; }"),
            ("a/mod.rs", "mod b; pub struct A;"),
            ("a/b.rs", "use super::A; use crate::inner::c::C;"),
            ("inner/c.rs", "pub struct C;"),
        ];
        assert_eq!(imports(&files), ["b -> mod", "b -> c"]);
    }

    #[test]
    fn names_that_lead_in_a_circle_lead_nowhere() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub use crate::b::X;"),
            ("b.rs", "pub use crate::a::X;"),
        ];
        assert_eq!(imports(&files).len(), 2);
        assert_eq!(
            imports(&[("lib.rs", "pub use crate::*; fn f() { missing() }")]),
            [""; 0]
        );
    }

    #[test]
    fn a_circle_is_all_who_reach_each_other() {
        let import = |from, to| ((from, to), String::new());
        let chain: Imports = [import(0, 1), import(1, 2), import(0, 2)].into();
        assert_eq!(circles(3, &chain), [[0; 0]; 0]);
        let two: Imports = [(0, 1), (1, 0), (1, 2), (2, 3), (3, 4), (4, 2)]
            .map(|(a, b)| import(a, b))
            .into();
        assert_eq!(circles(5, &two), [vec![0, 1], vec![2, 3, 4]]);
    }
}
